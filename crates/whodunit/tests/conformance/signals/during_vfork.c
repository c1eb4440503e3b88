// Signals that come while a parent waits for its vfork child reach the parent, once, and not the child.
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t in_parent, in_child;
static pid_t parent;

static void handler(int signal) {
    (void)signal;
    if (getpid() == parent)
        in_parent++;
    else
        in_child++;
}

int main(void) {
    parent = getpid();
    signal(SIGUSR1, handler);
    int lost = 0, doubled = 0;
    for (int round = 0; round < 50; round++) {
        int before = in_parent, status;
        pid_t child = vfork();
        if (child == 0) {
            kill(parent, SIGUSR1);
            _exit(7);
        }
        MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
        lost += in_parent < before + 1;
        doubled += in_parent > before + 1;
    }
    CHECK("none lost", lost == 0);
    CHECK("none twice", doubled == 0 && in_child == 0);
}
