// The program dies of an integer division by zero, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    volatile int one = 1, zero = 0;
    printf("%d\n", one / zero);
    puts("FAIL after");
    return 0;
}
