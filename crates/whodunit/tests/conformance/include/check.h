// What every guest program of the suite uses to state its results: one line a sub-case, the same in every run.
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Lines reach the output as they are printed, so neither fork nor a crash repeats or loses one.
__attribute__((constructor)) static void check_line_buffered(void) {
    setvbuf(stdout, NULL, _IOLBF, 4096);
}

static inline int check_at(int line, int holds, const char *name) {
    if (holds)
        printf("ok %s\n", name);
    else
        printf("FAIL %s (line %d, errno %d)\n", name, line, errno);
    return holds;
}

#define CHECK(name, condition) check_at(__LINE__, !!(condition), name)

// For what the rest of the program cannot do without.
#define MUST(condition)                                                    \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("FAIL must: %s (line %d, errno %d)\n", #condition, __LINE__, errno); \
            exit(99);                                                      \
        }                                                                  \
    } while (0)

#endif
