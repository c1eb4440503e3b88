// The program dies of a breakpoint that nobody handles, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    __asm__ volatile("int3");
    puts("FAIL after");
    return 0;
}
