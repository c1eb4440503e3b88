/* A name is too long for its block; what lies behind is used millions of rounds later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct totals {
    unsigned long *counts;
};

__attribute__((noinline)) static void set_name(char *name, const char *to) {
    strcpy(name, to); /* guilty */
}

__attribute__((noinline)) static unsigned long work(unsigned long rounds) {
    static volatile unsigned long table[256];
    unsigned long sum = 1;
    for (unsigned long round = 0; round < rounds; round++) {
        sum = sum * 6364136223846793005 + 1;
        table[sum >> 56]++;
    }
    return table[7];
}

__attribute__((noinline)) static void finish(struct totals *totals, unsigned long sum) {
    totals->counts[sum % 16]++; /* crash */
    printf("%lu\n", totals->counts[sum % 16]);
}

int main(int argc, char **argv) {
    char *name = malloc(24);
    struct totals *totals = malloc(sizeof *totals);
    totals->counts = calloc(16, sizeof *totals->counts);
    unsigned long sum = work(1000000);
    set_name(name, argv[argc - 1]);
    sum += work(2000000);
    finish(totals, sum);
}
