// setjmp and longjmp: values, nesting, loops, out of deep stacks, with and without signal masks.
//@ cc: -O1 -Wno-infinite-recursion
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static jmp_buf outer, inner;
static sigjmp_buf with_mask;

static void jump_from(int depth, int value) {
    char pad[128];
    __asm__ volatile("" : : "r"(pad) : "memory");
    if (depth)
        jump_from(depth - 1, value);
    longjmp(outer, value);
}

static void nested(void) {
    volatile int step = 0;
    if (setjmp(outer) == 0) {
        step++;
        if (setjmp(inner) == 0) {
            step++;
            longjmp(inner, 1);
        }
        step++;
        longjmp(outer, 9);
    }
    printf("nested steps %d\n", step);
}

static void handler(int signal) {
    (void)signal;
    siglongjmp(with_mask, 3);
}

int main(void) {
    for (volatile int depth = 1; depth <= 10000; depth *= 10) {
        int value = setjmp(outer);
        if (value == 0)
            jump_from(depth, depth);
        printf("jumped with %d\n", value);
    }
    CHECK("zero becomes one", ({ int v = setjmp(outer); if (!v) longjmp(outer, 0); v; }) == 1);
    nested();
    volatile int rounds = 0, total = 0;
    int value = setjmp(outer);
    total += value;
    if (rounds < 5000) {
        rounds++;
        jump_from(2, rounds);
    }
    printf("rounds %d, total %d\n", rounds, total);

    signal(SIGUSR1, handler);
    sigset_t mask;
    for (int save = 0; save < 2; save++) {
        if (sigsetjmp(with_mask, save) == 0)
            raise(SIGUSR1);
        sigprocmask(SIG_BLOCK, NULL, &mask);
        printf("mask %s: SIGUSR1 %s\n", save ? "restored" : "kept", sigismember(&mask, SIGUSR1) ? "blocked" : "open");
        sigemptyset(&mask);
        sigprocmask(SIG_SETMASK, &mask, NULL);
    }
    return 0;
}
