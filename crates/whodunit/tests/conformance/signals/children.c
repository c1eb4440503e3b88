// SIGCHLD: reaping with WNOHANG in the handler, what waitid says, children that leave no zombie.
//@ cc: -O1
//@ crashes
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static volatile int reaped, status_sum, code_seen;
static void handler(int signal, siginfo_t *info, void *context) {
    int saved = errno, status;
    (void)signal; (void)context;
    code_seen = info->si_code;
    while (waitpid(-1, &status, WNOHANG) > 0) { reaped++; status_sum += WEXITSTATUS(status); }
    errno = saved;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 10; i++) { pid_t child = fork(); MUST(child >= 0); if (child == 0) _exit(i); }
    while (reaped < 10) sigsuspend(&old);
    printf("reaped %d, sum %d, code %d\n", reaped, status_sum, code_seen);
    CHECK("none left", waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
    pid_t child = fork();
    if (child == 0) _exit(5);
    siginfo_t info;
    CHECK("waitid keeps", waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 5 && info.si_code == CLD_EXITED && info.si_pid == child);
    CHECK("waitid takes", waitid(P_PID, child, &info, WEXITED) == 0 && info.si_status == 5);
    CHECK("gone", waitid(P_PID, child, &info, WEXITED) == -1 && errno == ECHILD);
    child = fork();
    if (child == 0) abort();
    CHECK("waitid of a killed one", waitid(P_PID, child, &info, WEXITED) == 0 && (info.si_code == CLD_DUMPED || info.si_code == CLD_KILLED) && info.si_status == SIGABRT);
    signal(SIGCHLD, SIG_IGN);
    child = fork();
    if (child == 0) _exit(0);
    CHECK("ignored children leave nothing", waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    return 0;
}
