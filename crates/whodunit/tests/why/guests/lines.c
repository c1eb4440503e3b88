// Lines of input go into a block that is made for shorter ones; the crash comes with the first line, long before the last.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char *text;
};

static struct line *last;

__attribute__((noinline)) static size_t size_of(size_t expected)
{
    return expected * 2 + 4; /* size */
}

__attribute__((noinline)) static void add(const char *text)
{
    char *copy = malloc(size_of(6)); /* block */
    last = malloc(sizeof *last);
    last->text = NULL;
    for (int at = 0; text[at]; at++)
        copy[at] = text[at]; /* guilty */
    if (last->text)
        puts(last->text); /* crash */
}

int main(void)
{
    char text[128];
    int n_lines = 0;
    while (fgets(text, sizeof text, stdin)) {
        add(text);
        n_lines++;
    }
    printf("%d lines\n", n_lines);
    return 0;
}
