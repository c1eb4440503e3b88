// Works over four megabytes, and spoils a balance after so many percent of the rounds: `balance ROUNDS PERCENT`.
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1 << 19 };
static unsigned long cells[CELLS];
// Alone on its page, as a field of a large structure that is seldom written is.
static volatile struct { char before[4096]; long balance; char after[4096]; } account;

static __attribute__((noinline)) void spoil(void) {
    account.balance = 13;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int rounds = atoi(argv[1]), percent = atoi(argv[2]);
    unsigned long state = 88172645463325252ul;
    account.balance = 100;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CELLS; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            cells[state % CELLS] += state + cells[i];
        }
        if (round == rounds / 100 * percent)
            spoil();
    }
    printf("%lx %ld\n", cells[7], account.balance);
    return 0;
}
