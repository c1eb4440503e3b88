// A child process that shares its parent's memory and runs beside it: own number, own dispositions, waited for like any other.
//@ cc: -O1 -fno-stack-protector
//@ crashes
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STACK = 65536 };
static volatile int turn, seen_pid, seen_parent, value;
static void handler(int signal) { (void)signal; }
static void await(int wanted) { while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != wanted) sched_yield(); }
static void pass(int next) { __atomic_store_n(&turn, next, __ATOMIC_RELEASE); }

// Shares the thread data of its parent: it calls nothing that would change it while the parent runs.
static int partner(void *status) {
    seen_pid = getpid();
    seen_parent = getppid();
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int round = 0; round < 100; round++) {
        await(2 * round + 1);
        value++;
        pass(2 * round + 2);
    }
    return (intptr_t)status;
}
static int killed(void *nothing) { (void)nothing; pass(1); for (;;) pause(); return 0; }
static int faults(void *nothing) { (void)nothing; *(volatile int *)8 = 1; return 0; }
static int leaves(void *nothing) { (void)nothing; syscall(SYS_exit_group, 6); return 0; }

static pid_t start(char *stack, int (*function)(void *), int flags, intptr_t argument) {
    turn = 0;
    pid_t child = clone(function, stack + STACK - 64, flags, (void *)argument);
    MUST(child > 0);
    return child;
}

int main(void) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack != MAP_FAILED);
    int status = 0;
    pid_t child = start(stack, partner, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, 7);
    for (int round = 0; round < 100; round++) {
        pass(2 * round + 1);
        await(2 * round + 2);
    }
    CHECK("waited for", waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK("one memory", value == 100);
    CHECK("own number", seen_pid == child && seen_parent == getpid());
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    CHECK("own dispositions", action.sa_handler == SIG_DFL);

    child = start(stack, killed, CLONE_VM | CLONE_FILES, 0);
    await(1);
    CHECK("without a signal", waitpid(child, &status, WNOHANG) == -1 && errno == ECHILD);
    kill(child, SIGKILL);
    CHECK("killed", waitpid(child, &status, __WALL) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    child = start(stack, faults, CLONE_VM | SIGCHLD, 0);
    CHECK("faults", waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    child = start(stack, leaves, CLONE_VM | SIGCHLD, 0);
    CHECK("leaves", waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 6);
    return 0;
}
