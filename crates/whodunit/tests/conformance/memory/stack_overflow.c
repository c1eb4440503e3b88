// Endless recursion with no handler: the program is killed by SIGSEGV, its output so far intact.
//@ cc: -O0 -Wno-infinite-recursion
//@ crashes
#include "check.h"

static int endless(int depth) { volatile char pad[256]; pad[0] = depth; return endless(depth + 1) + pad[0]; }
int main(void) {
    puts("going down");
    printf("FAIL %d\n", endless(0));
    return 0;
}
