// The program dies of abort(), which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    abort();
    puts("FAIL after");
    return 0;
}
