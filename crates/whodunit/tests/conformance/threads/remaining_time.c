// How much time select, pselect6 and ppoll say is left, with other threads about: after readiness, after the time, after a signal.
//@ cc: -O1 -pthread
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

static int ends[2];
static pthread_t first;
static volatile int stop, interrupted;
static void handler(int signal) { (void)signal; interrupted = 1; }
static void *companion(void *nothing) {
    (void)nothing;
    struct timespec pause = {0, 2000000};
    while (!stop) { nanosleep(&pause, NULL); pthread_kill(first, SIGUSR1); }
    return NULL;
}
static void *writer(void *nothing) {
    (void)nothing;
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    MUST(write(ends[1], "x", 1) == 1);
    return NULL;
}
static void *idler(void *nothing) { (void)nothing; char byte; return (void *)read(ends[0], &byte, 1); }
static int less(const struct timespec *t) { return t->tv_sec >= 50 && t->tv_sec <= 99 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000; }

int main(void) {
    pthread_t thread;
    fd_set set;
    first = pthread_self();
    MUST(pipe(ends) == 0);

    MUST(pthread_create(&thread, NULL, writer, NULL) == 0);
    struct timeval time = {100, 0};
    FD_ZERO(&set); FD_SET(ends[0], &set);
    CHECK("select", select(ends[0] + 1, &set, NULL, NULL, &time) == 1);
    CHECK("time is left", time.tv_sec >= 50 && time.tv_sec <= 99 && time.tv_usec >= 0 && time.tv_usec < 1000000);
    pthread_join(thread, NULL);
    struct timespec exact = {100, 0};
    CHECK("pselect6", syscall(SYS_pselect6, ends[0] + 1, &set, NULL, NULL, &exact, NULL) == 1);
    CHECK("a byte is there", exact.tv_sec >= 50 && exact.tv_sec <= 100);
    char byte;
    MUST(read(ends[0], &byte, 1) == 1);

    MUST(pthread_create(&thread, NULL, idler, NULL) == 0);
    time = (struct timeval){0, 3000};
    CHECK("select passes", select(0, NULL, NULL, NULL, &time) == 0);
    CHECK("none is left", time.tv_sec == 0 && time.tv_usec == 0);
    exact = (struct timespec){0, 3000000};
    CHECK("ppoll passes", syscall(SYS_ppoll, NULL, 0, &exact, NULL, 8) == 0);
    CHECK("none is left", exact.tv_sec == 0 && exact.tv_nsec == 0);
    MUST(write(ends[1], "x", 1) == 1);
    pthread_join(thread, NULL);

    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    MUST(pthread_create(&thread, NULL, companion, NULL) == 0);
    exact = (struct timespec){100, 0};
    CHECK("interrupted ppoll", syscall(SYS_ppoll, NULL, 0, &exact, NULL, 8) == -1 && errno == EINTR && interrupted);
    CHECK("time is left", less(&exact));
    exact = (struct timespec){100, 0};
    CHECK("interrupted pselect6", syscall(SYS_pselect6, 0, NULL, NULL, NULL, &exact, NULL) == -1 && errno == EINTR);
    CHECK("time is left", less(&exact));
    stop = 1;
    while (pthread_join(thread, NULL)) ;
    return 0;
}
