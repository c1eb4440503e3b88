// Signals of faults, when somebody sends them while they are blocked, wait like any other.
#include "check.h"
#include <signal.h>

static volatile sig_atomic_t handled;

static void handler(int signal) {
    handled = signal;
}

int main(void) {
    static const int signals[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGUSR1};
    for (int i = 0; i < 6; i++) {
        int number = signals[i], taken = 0;
        sigset_t one, pending;
        sigemptyset(&one);
        sigaddset(&one, number);
        signal(number, handler);
        sigprocmask(SIG_BLOCK, &one, NULL);
        MUST(kill(getpid(), number) == 0);
        sigpending(&pending);
        CHECK("pending", sigismember(&pending, number) == 1 && handled != number);
        CHECK("taken", sigwait(&one, &taken) == 0 && taken == number && handled != number);
        MUST(raise(number) == 0);
        CHECK("kept", handled != number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        CHECK("delivered", handled == number);
    }
}
