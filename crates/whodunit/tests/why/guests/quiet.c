// Writes beyond a block, a global array, an array on the stack, or to a block that was given back, and ends well all the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What comes behind such an array is aligned, and so not reached at once.
#define LENGTH 25

char town[LENGTH];
long gap;
char street[LENGTH];
static char *const fields[] = {town, street};
// Deliberately not static: what is in a block must be stored.
char *kept;

__attribute__((noinline)) static void copy(char *to, const char *text)
{
    while ((*to++ = *text++)) /* copy */
        ;
}

__attribute__((noinline)) static size_t local(const char *text)
{
    char first[LENGTH], second[LENGTH];
    copy(first, "none");
    copy(second, text);
    return strlen(first) + strlen(second);
}

// Where the second array ends is where the loop does.
__attribute__((noinline)) static int sum(void)
{
    static int numbers[16], others[16];
    int total = 0;
    for (int *number = numbers; number < numbers + 16; number++)
        *number = 1, total += others[number - numbers];
    for (int *number = others; number < others + 16; number++)
        *number = 2, total += *number;
    return total;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "none";
    const char *text = argc > 2 ? argv[2] : "short";
    kept = malloc(LENGTH + 1); /* allocate */
    char *after = calloc(2, 64);
    if (!strcmp(mode, "heap"))
        copy(kept, text);
    else if (!strcmp(mode, "global"))
        copy(fields[argc - 2], text);
    else if (!strcmp(mode, "stack"))
        printf("%zu\n", local(text));
    else
        copy(after, "nothing");
    after = realloc(after, 256);
    free(kept);
    if (!strcmp(mode, "freed"))
        kept[20] = 'x'; /* stale */
    printf("%s: %d, %s\n", mode, sum(), town);
    free(after);
    return 0;
}
