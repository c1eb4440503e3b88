// A name that is too long overruns its entry of a list, and much later the list is walked.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char name[16];
    struct entry *next;
    int hits;
};

static struct entry *head;

__attribute__((noinline)) static void add(const char *name)
{
    struct entry *made = malloc(sizeof *made);
    made->next = head;
    made->hits = 0;
    char *to = made->name;
    do
        *to++ = *name; /* guilty */
    while (*name++);
    head = made;
}

__attribute__((noinline)) static int count(void)
{
    int total = 0;
    for (struct entry *at = head; at; at = at->next)
        total += at->hits + (int)strlen(at->name); /* crash */
    return total;
}

int main(int argc, char **argv)
{
    add("short");
    add(argc > 1 ? argv[1] : "fine");
    add("omega");
    unsigned work = 1;
    for (volatile int round = 0; round < 1000; round++)
        work = work * 1664525u + 1013904223u;
    printf("work %u\n", work);
    printf("total %d\n", count());
    return 0;
}
