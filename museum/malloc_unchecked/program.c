// Names are copied into blocks of their own, and nobody looks whether there was memory for them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"};
#define NAMES (sizeof names / sizeof *names)

static void *allocate(size_t size)
{
#ifdef SHOW
    static int n_calls;
    if (++n_calls == 3)
        return NULL;
#endif
    return malloc(size);
}

static size_t length_of_copy(const char *name)
{
    char *copy = allocate(strlen(name) + 1); /* guilty: allocate */
#ifdef FIXED
    if (!copy)
        return strlen(name);
#endif
    strcpy(copy, name); /* guilty: use */
    size_t length = strlen(copy);
    free(copy);
    return length;
}

int main(void)
{
    size_t total = 0;
    for (size_t number = 0; number < NAMES; number++)
        total += length_of_copy(names[number]);
    printf("%zu letters\n", total);
    return 0;
}
