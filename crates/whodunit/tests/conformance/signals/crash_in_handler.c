// A handler that faults itself: with the signal blocked, the second fault ends the program.
//@ crashes
#include "check.h"
#include <signal.h>

static void handler(int signal) {
    printf("handler of %d\n", signal);
    *(volatile int *)(uintptr_t)32 = 0;
    puts("FAIL after");
}
int main(void) {
    signal(SIGSEGV, handler);
    *(volatile int *)(uintptr_t)8 = 0;
    return 0;
}
