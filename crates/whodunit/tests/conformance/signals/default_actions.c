// The default action of every signal, sent by raise, kill and abort, as a parent sees it; ignored and stopped children too.
//@ cc: -O1
//@ crashes
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static void describe(int status) {
    if (WIFEXITED(status)) printf("exit %d\n", WEXITSTATUS(status));
    else if (WIFSIGNALED(status)) printf("killed by %d\n", WTERMSIG(status));
    else if (WIFSTOPPED(status)) printf("stopped by %d\n", WSTOPSIG(status));
    else printf("status %x\n", status);
}
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return status; }

int main(void) {
    for (int signal = 1; signal < 32; signal++) {
        if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) continue;
        pid_t child = fork();
        if (child == 0) { raise(signal); _exit(50); }
        printf("raise %d: ", signal);
        describe(ended(child));
    }
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal += 15) {
        pid_t child = fork();
        if (child == 0) { kill(getpid(), signal); _exit(51); }
        printf("kill real-time: ");
        printf("%d\n", WIFSIGNALED(ended(child)));
    }
    pid_t child = fork();
    if (child == 0) { signal(SIGABRT, SIG_IGN); abort(); }
    printf("abort though ignored: "); describe(ended(child));
    child = fork();
    if (child == 0) { sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, NULL); *(volatile int *)0 = 1; _exit(1); }
    printf("fault though blocked: "); describe(ended(child));
    child = fork();
    if (child == 0) { signal(SIGSEGV, SIG_IGN); *(volatile int *)0 = 1; _exit(1); }
    printf("fault though ignored: "); describe(ended(child));
    child = fork();
    if (child == 0) { signal(SIGTERM, SIG_IGN); raise(SIGTERM); _exit(4); }
    printf("ignored: "); describe(ended(child));
    int status, ends[2];
    MUST(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        char byte;
        for (int i = 0; i < 2; i++) { raise(SIGSTOP); (void)!read(ends[0], &byte, 1); }
        _exit(6);
    }
    for (int i = 0; i < 2; i++) {
        MUST(waitpid(child, &status, WUNTRACED) == child);
        printf("stops: "); describe(status);
        kill(child, SIGCONT);
        MUST(waitpid(child, &status, WCONTINUED) == child);
        CHECK("continued", WIFCONTINUED(status));
        MUST(write(ends[1], "g", 1) == 1); // only now may it stop again
    }
    printf("then: "); describe(ended(child));
    child = fork();
    if (child == 0) for (;;) pause();
    kill(child, SIGKILL);
    printf("kill: "); describe(ended(child));
    close(ends[0]);
    child = fork();
    if (child == 0) { (void)!write(ends[1], "x", 1); _exit(1); }
    printf("pipe: "); describe(ended(child));
    signal(SIGPIPE, SIG_IGN);
    CHECK("EPIPE when ignored", write(ends[1], "x", 1) == -1 && errno == EPIPE);
    return 0;
}
