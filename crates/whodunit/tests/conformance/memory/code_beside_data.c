// Nested functions put code on the stack; the kernel and signal handlers write to the same pages.
//@ cc: -O1 -z execstack -Wno-trampolines
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    handled++;
}

__attribute__((noinline)) static int call(int (*function)(int), int argument) {
    return function(argument) + 1;
}

// Called far below the page with the code, so that only the kernel writes to that page between the call and the end.
__attribute__((noinline)) static pid_t wait_below(int (*function)(int), pid_t child, int *status) {
    volatile char room[8192];
    room[0] = 1;
    call(function, room[0]);
    return waitpid(child, status, 0);
}

__attribute__((noinline)) static int act_below(int (*function)(int), struct sigaction *old) {
    volatile char room[8192];
    struct sigaction action = {.sa_handler = handler};
    room[0] = 1;
    call(function, room[0]);
    return sigaction(SIGUSR2, &action, old);
}

int main(void) {
    int status = 0, base = 3;
    struct sigaction old;
    int add(int value) { return value + base; }
    memset(&old, 0x55, sizeof old);

    pid_t child = fork();
    if (child == 0)
        _exit(7);
    CHECK("status", wait_below(add, child, &status) == child && WEXITSTATUS(status) == 7);
    CHECK("old action", act_below(add, &old) == 0 && old.sa_handler == SIG_DFL);
    raise(SIGUSR2);
    CHECK("new action", handled == 1);

    struct itimerval timer = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}};
    long wrong = 0;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (handled < 50)
        wrong += call(add, base) != 2 * base + 1;
    setitimer(ITIMER_REAL, &none, NULL);
    CHECK("interrupted", wrong == 0);
}
