// polymorph 0.4.0: names of files are converted to lower case into a buffer on the stack, up to the end of the name.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define NAME_LENGTH 200
#define KNOWN_NAMES 64

// What a run knows of the folder; it lives in the caller's frame.
struct folder {
    int n_converted, n_capitals;
    unsigned hashes[KNOWN_NAMES / 2];
    const char *extension;
    const char *separator;
};

static unsigned known[KNOWN_NAMES];

static unsigned hash_of(const char *name)
{
    unsigned hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

// Looks whether a file of that name is there already: many steps, and none of them looks at the frames.
SEPARATE static int is_taken(const char *name)
{
    unsigned hash = hash_of(name);
    int n_same = 0;
    for (int round = 0; round < 160; round++)
        for (int other = 0; other < KNOWN_NAMES; other++)
            n_same += (known[other] ^ (unsigned)round * 40503u) == hash;
    return n_same > 0;
}

// The length of the name, and of what follows the last point.
SEPARATE static void measure(const char *name, int lengths[2])
{
    const char *point = strrchr(name, '.');
    lengths[0] = strlen(name);
    lengths[1] = point ? strlen(point + 1) : 0;
}

static int has_extension(const char *name, const struct folder *folder)
{
    return strstr(name, folder->extension) != NULL; /* mark: extension */
}

SEPARATE static void count_capital(struct folder *folder)
{
    folder->n_capitals++;
}

SEPARATE static void to_lower_case(char *to, const char *from, struct folder *folder)
{
    for (; *from; from++) { /* mark: bound */
        if (isupper((unsigned char)*from)) {
            *to++ = *from - 'A' + 'a'; /* mark: lower */
            count_capital(folder);
        } else {
            *to++ = *from; /* mark: copy */
        }
    }
    *to = 0;
}

SEPARATE static void convert_name(const char *original, struct folder *folder)
{
    int lengths[2];
    char converted[NAME_LENGTH];
#ifdef FIXED
    if (strlen(original) >= sizeof converted) {
        puts("name too long");
        return;
    }
#endif
    to_lower_case(converted, original, folder);
    measure(original, lengths);
    if (is_taken(converted) || has_extension(converted, folder))
        return;
    folder->hashes[folder->n_converted % (KNOWN_NAMES / 2)] = hash_of(converted) + lengths[0] + lengths[1];
    folder->n_converted++;
} /* mark: return */

int main(void)
{
    struct folder folder = {.extension = ".poly", .separator = "/"};
    static char name[1024];
    for (int other = 0; other < KNOWN_NAMES; other++)
        known[other] = other * 2654435761u;
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        convert_name(name, &folder);
    }
    printf("%d converted, %d capitals\n", folder.n_converted, folder.n_capitals);
    return 0;
}
