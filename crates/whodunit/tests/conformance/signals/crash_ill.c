// The program dies of an invalid instruction, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    __builtin_trap();
    puts("FAIL after");
    return 0;
}
