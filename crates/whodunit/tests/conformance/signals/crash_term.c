// The program dies of SIGTERM that it sends itself, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"
#include <signal.h>

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    kill(getpid(), SIGTERM); pause();
    puts("FAIL after");
    return 0;
}
