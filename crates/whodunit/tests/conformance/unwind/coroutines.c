// makecontext and swapcontext: stacks of the program's own choosing, with thousands of switches.
//@ cc: -O2
#include "check.h"
#include <alloca.h>
#include <ucontext.h>

enum { COROUTINES = 8, STACK = 64 * 1024 };
static ucontext_t main_context, contexts[COROUTINES];
static int yielded, finished;

static void yield_value(int id, int value) {
    yielded = value;
    swapcontext(&contexts[id], &main_context);
}

static void generator(int id, int step) {
    double factor = id + 0.5;
    for (int i = 0; i < 500; i++)
        yield_value(id, (int)(i * step * factor));
    finished++;
}

static void many(int a, int b, int c, int d, int e, int f, int g, int h) {
    printf("eight arguments: %d %d %d %d %d %d %d %d\n", a, b, c, d, e, f, g, h);
}

static int use_alloca(int n) {
    int *block = alloca(n * sizeof *block);
    for (int i = 0; i < n; i++)
        block[i] = i;
    return n > 1 ? block[n - 1] + use_alloca(n / 2) : block[0];
}

int main(void) {
    for (int i = 0; i < COROUTINES; i++) {
        MUST(getcontext(&contexts[i]) == 0);
        contexts[i].uc_stack.ss_sp = malloc(STACK);
        contexts[i].uc_stack.ss_size = STACK;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))generator, 2, i, i + 1);
    }
    long total = 0;
    for (int round = 0; round < 500; round++)
        for (int i = 0; i < COROUTINES; i++) {
            swapcontext(&main_context, &contexts[i]);
            total += yielded;
        }
    printf("total %ld\n", total);
    for (int i = 0; i < COROUTINES; i++)
        swapcontext(&main_context, &contexts[i]);
    printf("finished %d\n", finished);

    ucontext_t other;
    static char stack[STACK];
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &main_context;
    makecontext(&other, (void (*)(void))many, 8, 1, 2, 3, 4, 5, 6, 7, 8);
    swapcontext(&main_context, &other);

    volatile int returns = 0;
    ucontext_t here;
    getcontext(&here);
    if (returns++ < 3)
        setcontext(&here);
    printf("getcontext returned %d times\n", returns);
    printf("alloca %d\n", use_alloca(4096));
    return 0;
}
