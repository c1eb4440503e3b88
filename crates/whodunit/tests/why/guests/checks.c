// A check of the program's own, or one of the allocator, notices what went wrong before.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char label[16];
long limit;
char *name;

__attribute__((noinline)) static void set_label(const char *text)
{
    for (int at = 0; text[at]; at++)
        label[at] = text[at]; /* overrun */
}

__attribute__((noinline)) static void release(void)
{
    free(name); /* release */
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    limit = 8;
    set_label(argv[1]);
    name = malloc(24);
    release();
    if (!strcmp(argv[1], "twice"))
        release();
    assert(limit == 8); /* check */
    puts("done");
    return 0;
}
