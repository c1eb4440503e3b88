// Taking signals without handlers: sigwait, sigwaitinfo, sigtimedwait, sigsuspend, signalfd; queued values and their order.
//@ cc: -O1 -pthread
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static volatile int handled;
static void handler(int signal) { handled = signal; }
static void *sends(void *main_thread) {
    for (int i = 0; i < 3; i++) pthread_sigqueue(*(pthread_t *)main_thread, SIGRTMIN + 2, (union sigval){.sival_int = 100 + i});
    return NULL;
}

int main(void) {
    sigset_t set, suspended, empty;
    siginfo_t info;
    int got;
    sigemptyset(&empty);
    sigemptyset(&set);
    for (int i = 0; i < 5; i++) sigaddset(&set, SIGRTMIN + i);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    CHECK("sigwait", sigwait(&set, &got) == 0 && got == SIGUSR1);
    static const int order[] = {3, 1, 3, 0, 1, 3};
    for (int i = 0; i < 6; i++) sigqueue(getpid(), SIGRTMIN + order[i], (union sigval){.sival_int = i});
    for (int i = 0; i < 6; i++) {
        got = sigwaitinfo(&set, &info);
        printf("real-time %d value %d, queued %d, from us %d\n", got - SIGRTMIN, info.si_value.sival_int, info.si_code == SI_QUEUE, info.si_pid == getpid());
    }
    struct timespec brief = {0, 5000000}, zero = {0, 0};
    CHECK("nothing there", sigtimedwait(&set, &info, &zero) == -1 && errno == EAGAIN);
    CHECK("times out", sigtimedwait(&set, &info, &brief) == -1 && errno == EAGAIN);
    pthread_t thread, self = pthread_self();
    MUST(pthread_create(&thread, NULL, sends, &self) == 0);
    for (int i = 0; i < 3; i++) {
        got = sigwaitinfo(&set, &info);
        printf("from a thread: %d value %d\n", got - SIGRTMIN, info.si_value.sival_int);
    }
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) { kill(getppid(), SIGRTMIN + 4); _exit(3); }
    sigset_t only = empty;
    sigaddset(&only, SIGRTMIN + 4);
    got = sigwaitinfo(&only, &info);
    CHECK("from a child", got == SIGRTMIN + 4 && info.si_code == SI_USER && info.si_pid == child && info.si_uid == getuid());
    only = empty;
    sigaddset(&only, SIGCHLD);
    got = sigwaitinfo(&only, &info);
    CHECK("child ended", got == SIGCHLD && info.si_code == CLD_EXITED && info.si_status == 3 && info.si_pid == child);
    waitpid(child, NULL, 0);

    signal(SIGUSR2, handler);
    sigset_t usr2 = empty;
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    raise(SIGUSR2);
    CHECK("held back", handled == 0);
    sigprocmask(SIG_BLOCK, NULL, &suspended);
    sigdelset(&suspended, SIGUSR2);
    CHECK("sigsuspend", sigsuspend(&suspended) == -1 && errno == EINTR && handled == SIGUSR2);
    sigprocmask(SIG_BLOCK, NULL, &suspended);
    CHECK("mask is back", sigismember(&suspended, SIGUSR2));
    handled = 0;
    raise(SIGUSR2);
    struct timespec long_time = {5, 0};
    sigdelset(&suspended, SIGUSR2);
    CHECK("ppoll opens the mask", ppoll(NULL, 0, &long_time, &suspended) == -1 && errno == EINTR && handled == SIGUSR2);

    int descriptor = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct signalfd_siginfo from_file;
    CHECK("empty", read(descriptor, &from_file, sizeof from_file) == -1 && errno == EAGAIN);
    raise(SIGUSR1);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 55});
    struct pollfd polled = {descriptor, POLLIN, 0};
    CHECK("readable", poll(&polled, 1, 0) == 1);
    CHECK("signalfd", read(descriptor, &from_file, sizeof from_file) == sizeof from_file && from_file.ssi_signo == SIGUSR1);
    CHECK("signalfd value", read(descriptor, &from_file, sizeof from_file) == sizeof from_file && from_file.ssi_int == 55);
    return 0;
}
