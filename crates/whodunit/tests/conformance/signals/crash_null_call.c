// The program dies of a call of a null function pointer, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    ((void (*volatile)(void))NULL)();
    puts("FAIL after");
    return 0;
}
