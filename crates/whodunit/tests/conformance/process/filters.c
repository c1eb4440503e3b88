// Filters of system calls: errors, traps and kills, by whom they are inherited, what is refused, and the strict mode.
//@ cc: -O1 -pthread
//@ crashes
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ON(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, (action))
#define ELSE(action) BPF_STMT(BPF_RET | BPF_K, (action))

static volatile int trapped, trap_number, trap_code, trap_data;
static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    trapped++;
    trap_number = info->si_syscall;
    trap_code = info->si_code;
    trap_data = info->si_errno;
}
static int install(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
#define INSTALL(...) ({ struct sock_filter filter_[] = {__VA_ARGS__}; install(filter_, sizeof filter_ / sizeof *filter_); })

static int refused(void) { errno = 0; return syscall(SYS_getppid) == -1 && errno == 77; }
static void *in_thread(void *nothing) { (void)nothing; return (void *)(intptr_t)refused(); }
static void *dies(void *nothing) { (void)nothing; syscall(SYS_getpgrp); return (void *)1; }
static int ending(pid_t child) { int status = 0; waitpid(child, &status, 0); return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status); }

static void kills(void) {
    pid_t child = fork();
    if (child == 0) { INSTALL(LOAD(nr), ON(SYS_getpgrp, SECCOMP_RET_KILL_PROCESS), ELSE(SECCOMP_RET_ALLOW)); syscall(SYS_getpgrp); _exit(1); }
    CHECK("a process is killed", ending(child) == -SIGSYS);
    child = fork();
    if (child == 0) {
        INSTALL(LOAD(nr), ON(SYS_getpgrp, SECCOMP_RET_KILL_THREAD), ELSE(SECCOMP_RET_ALLOW));
        pthread_t thread;
        pthread_create(&thread, NULL, dies, NULL);
        pthread_join(thread, NULL);
        _exit(7);
    }
    CHECK("a thread is killed", ending(child) == 7);
    child = fork();
    if (child == 0) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); (void)!write(1, "strictly\n", 9); syscall(SYS_exit, 5); }
    CHECK("strict mode writes and ends", ending(child) == 5);
    child = fork();
    if (child == 0) { syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL); syscall(SYS_getpid); _exit(1); }
    CHECK("strict mode kills", ending(child) == -SIGKILL);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        CHECK("inherited by the next program", refused());
        return 3;
    }
    struct sock_fprog empty = {0, NULL};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK("none yet", prctl(PR_GET_SECCOMP) == 0 || prctl(PR_GET_SECCOMP) == 2);
    CHECK("empty", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty) == -1 && errno == EINVAL);
    CHECK("nowhere", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    CHECK("endless", INSTALL(LOAD(nr)) == -1 && errno == EINVAL);
    CHECK("bad flag", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1u << 30, NULL) == -1 && errno == EINVAL);
    kills();

    CHECK("installed", INSTALL(LOAD(nr), ON(SYS_getppid, SECCOMP_RET_ERRNO | 77), ON(SYS_uname, SECCOMP_RET_TRAP | 9), ELSE(SECCOMP_RET_ALLOW)) == 0);
    CHECK("filter mode", prctl(PR_GET_SECCOMP) == 2);
    CHECK("refused", refused());
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    struct utsname names;
    CHECK("trapped", syscall(SYS_uname, &names) == SYS_uname && trapped == 1);
    CHECK("trap tells", trap_number == SYS_uname && trap_code == 1 && trap_data == 9);
    CHECK("sterner wins", INSTALL(LOAD(nr), ON(SYS_uname, SECCOMP_RET_ERRNO | 5), ON(SYS_getpgrp, SECCOMP_RET_ERRNO | 4), ELSE(SECCOMP_RET_ALLOW)) == 0 && syscall(SYS_uname, &names) == SYS_uname && trapped == 2);
    CHECK("both hold", syscall(SYS_getpgrp) == -1 && errno == 4 && refused());
    CHECK("arguments", INSTALL(LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_get_priority_max, 0, 3), LOAD(args[0]), ON(SCHED_RR, SECCOMP_RET_ERRNO | 3), ELSE(SECCOMP_RET_ALLOW)) == 0
          && sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_max(SCHED_RR) == -1 && errno == 3);

    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    pthread_join(thread, &result);
    CHECK("inherited by a thread", result != NULL);
    pid_t child = fork();
    if (child == 0) _exit(refused());
    CHECK("inherited by a child", ending(child) == 1);
    child = fork();
    if (child == 0) { execl("/proc/self/exe", argv[0], "again", NULL); _exit(1); }
    CHECK("the next program ran", ending(child) == 3);
    return 0;
}
