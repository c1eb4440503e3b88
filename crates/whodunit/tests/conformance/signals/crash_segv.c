// The program dies of a write to an unmapped address, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    *(volatile int *)(uintptr_t)8 = 1;
    puts("FAIL after");
    return 0;
}
