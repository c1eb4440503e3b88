// Nothing is corrupt: blocks are lost, or the program ends with a bad status because its input is bad.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "fails";
    size_t total = 0;
    for (int number = 0; number < 100; number++)
        total += strlen(copy_of(mode));
    if (!strcmp(mode, "fails")) {
        fprintf(stderr, "bad input\n");
        return 1;
    }
    printf("%zu\n", total);
    return 0;
}
