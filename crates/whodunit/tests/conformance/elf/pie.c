// A position-independent executable: relocated data, function tables and string tables are in place.
//@ cc: -fPIE -pie
#include "check.h"

static int twice(int x) { return 2 * x; }
static int square(int x) { return x * x; }
static int (*const table[])(int) = {twice, square};
static const char *const words[] = {"one", "two", "three"};
static const char *const *const words_end = words + 3;
int exported = 17;
static int *const relocated = &exported;

int main(int argc, char **argv) {
    printf("%d arguments\n", argc);
    for (int i = 0; i < 2; i++)
        printf("table[%d](7) = %d\n", i, table[i](7));
    for (const char *const *word = words; word < words_end; word++)
        printf("%s\n", *word);
    *relocated += 1;
    CHECK("relocated pointer", exported == 18);
    CHECK("loaded high", (uintptr_t)main > 0x10000000);
    CHECK("argv ends in null", argv[argc] == NULL);
    return 5;
}
