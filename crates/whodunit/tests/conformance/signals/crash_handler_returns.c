// A handler that returns meets the same fault again; it gives up at the third by restoring the default.
//@ crashes
#include "check.h"
#include <signal.h>

static int count;
static void handler(int number) {
    printf("fault %d\n", ++count);
    if (count == 3)
        signal(number, SIG_DFL);
}
int main(void) {
    signal(SIGSEGV, handler);
    *(volatile int *)(uintptr_t)8 = 0;
    puts("FAIL after");
    return 0;
}
