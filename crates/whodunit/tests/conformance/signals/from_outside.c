// Signals from another process reach a program that computes, sleeps, waits or makes system calls, and none is lost.
//@ cc: -O1
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { SIGNALS = 40 };
static volatile int received, sender_seen;
static pid_t parent;
static int answers[2];
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    received++;
    sender_seen = info->si_pid;
    (void)!write(answers[1], "a", 1); // asks for the next one
}
// Sends one signal an answer, so that none can be merged with another.
static pid_t sender(void) {
    pid_t child = fork();
    if (child == 0) {
        char byte;
        for (int i = 0; i < SIGNALS; i++) { kill(parent, SIGUSR1); if (read(answers[0], &byte, 1) != 1) _exit(1); }
        _exit(0);
    }
    return child;
}
static void finish(const char *name, pid_t child) {
    int status;
    while (waitpid(child, &status, 0) == -1) ;
    printf("%s: received %d, sender %s, its status %d\n", name, received, sender_seen == child ? "right" : "wrong", WEXITSTATUS(status));
    received = 0;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    MUST(pipe(answers) == 0);
    parent = getpid();
    volatile unsigned long work = 0;
    pid_t child = sender();
    while (received < SIGNALS) work++;
    finish("computing", child);
    child = sender();
    while (received < SIGNALS) usleep(500);
    finish("sleeping", child);
    child = sender();
    // The wait is opened atomically, so that the last signal cannot slip by before it.
    sigset_t block, open;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigprocmask(SIG_BLOCK, &block, &open);
    while (received < SIGNALS) sigsuspend(&open);
    sigprocmask(SIG_SETMASK, &open, NULL);
    finish("suspended", child);
    child = sender();
    while (received < SIGNALS) getppid();
    finish("calling", child);
    return 0;
}
