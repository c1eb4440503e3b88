// prctl, process groups, priorities, limits of children, parent-death signals, subreapers, pipelines of processes.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int main(void) {
    char name[16] = "";
    CHECK("set name", prctl(PR_SET_NAME, "a new name") == 0 && prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "a new name"));
    FILE *comm = fopen("/proc/self/comm", "r");
    char line[64] = "";
    MUST(comm && fgets(line, sizeof line, comm));
    printf("comm %s", line);
    int value = -1;
    CHECK("death signal", prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &value) == 0 && value == SIGUSR1);
    prctl(PR_SET_PDEATHSIG, 0);
    CHECK("dumpable", prctl(PR_GET_DUMPABLE) == 1);
    CHECK("no new privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    CHECK("unknown option", prctl(9999) == -1 && errno == EINVAL);
    CHECK("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    int ends[2];
    MUST(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) { char byte; close(ends[1]); (void)!read(ends[0], &byte, 1); _exit(17); }
        (void)!write(ends[1], &grandchild, sizeof grandchild);
        _exit(0);
    }
    ended(child);
    close(ends[0]);
    close(ends[1]);
    printf("orphan comes to us: %d\n", ({ int status; wait(&status) > 0 ? WEXITSTATUS(status) : -1; }));
    // The parent dies, the child gets the signal it asked for.
    MUST(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        int ready[2];
        MUST(pipe(ready) == 0);
        if (fork() == 0) {
            sigset_t set;
            int got;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR2);
            sigprocmask(SIG_BLOCK, &set, NULL);
            prctl(PR_SET_PDEATHSIG, SIGUSR2);
            (void)!write(ready[1], "r", 1);
            sigwait(&set, &got);
            (void)!write(ends[1], "signalled", 10);
            _exit(0);
        }
        char byte;
        (void)!read(ready[0], &byte, 1);
        _exit(0);
    }
    ended(child);
    char text[16] = "";
    MUST(read(ends[0], text, sizeof text) == 10);
    printf("parent died: %s\n", text);
    wait(NULL);
    child = fork();
    if (child == 0) { CHECK("own group", setpgid(0, 0) == 0 && getpgrp() == getpid()); raise(SIGKILL); }
    printf("group leader %d\n", ended(child));
    child = fork();
    if (child == 0) { CHECK("nice", nice(3) >= 3 && getpriority(PRIO_PROCESS, 0) >= 3); _exit(0); }
    ended(child);
    CHECK("scheduler", sched_getscheduler(0) == SCHED_OTHER);
    cpu_set_t cpus;
    CHECK("affinity", sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 1);
    // yes | head | wc, by hand
    int first[2], next[2];
    MUST(pipe(first) == 0 && pipe(next) == 0);
    if (fork() == 0) { dup2(first[1], 1); close(first[0]); close(first[1]); close(next[0]); close(next[1]); execlp("yes", "yes", "word", NULL); _exit(1); }
    if (fork() == 0) { dup2(first[0], 0); dup2(next[1], 1); close(first[0]); close(first[1]); close(next[0]); close(next[1]); execlp("head", "head", "-n", "500", NULL); _exit(1); }
    close(first[0]); close(first[1]); close(next[1]);
    long bytes = 0;
    char block[512];
    for (ssize_t n; (n = read(next[0], block, sizeof block)) > 0;) bytes += n;
    printf("pipeline %ld\n", bytes);
    int by_pipe = 0, status;
    while (wait(&status) > 0) by_pipe += WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE;
    printf("ended by SIGPIPE %d\n", by_pipe);
    return 0;
}
