// A signal that comes before a system call is handled before it: a call that need not wait is never interrupted.
//@ cc: -O1
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
}

int main(void) {
    int ends[2], interrupted = 0;
    long rounds = 0;
    char byte = 'x';
    struct sigaction action = {.sa_handler = tick}; // without SA_RESTART
    struct itimerval fast = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    CHECK("pipe", pipe(ends) == 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &fast, NULL);
    for (; ticks < 1000; rounds++) {
        if (write(ends[1], &byte, 1) != 1) interrupted += errno == EINTR;
        else if (read(ends[0], &byte, 1) != 1) interrupted += errno == EINTR;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    CHECK("calls were made", rounds > 0);
    printf("interrupted %d\n", interrupted);
    return 0;
}
