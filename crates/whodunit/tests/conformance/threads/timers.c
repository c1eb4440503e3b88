// POSIX timers that signal or start threads, timerfd, sleeps in several threads at once.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <time.h>

static sem_t ticked;
static volatile int signals, threads, value_seen;
static void by_thread(union sigval value) { value_seen = value.sival_int; threads++; sem_post(&ticked); }
static void by_signal(int signal, siginfo_t *info, void *context) { (void)signal; (void)context; if (info->si_code == SI_TIMER && info->si_value.sival_int == 31) signals++; }
static void *sleeper(void *milliseconds) {
    struct timespec start, end, t = {0, (intptr_t)milliseconds * 1000000};
    clock_gettime(CLOCK_MONOTONIC, &start);
    int r = nanosleep(&t, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long passed = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
    return (void *)(intptr_t)(r == 0 && passed >= (intptr_t)milliseconds);
}

int main(void) {
    sem_init(&ticked, 0, 0);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = by_thread, .sigev_value.sival_int = 12};
    struct itimerspec fast = {{0, 3000000}, {0, 1000000}}, off = {{0, 0}, {0, 0}}, left;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK("start", timer_settime(timer, 0, &fast, NULL) == 0);
    for (int i = 0; i < 5; i++) while (sem_wait(&ticked)) ;
    CHECK("threads called", threads >= 5 && value_seen == 12);
    CHECK("stop", timer_settime(timer, 0, &off, &left) == 0 && left.it_interval.tv_nsec == 3000000);
    CHECK("delete", timer_delete(timer) == 0);

    struct sigaction action = {.sa_sigaction = by_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 1, &action, NULL);
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 31};
    MUST(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
    timer_settime(timer, 0, &fast, NULL);
    while (signals < 5) ;
    CHECK("signals came", signals >= 5);
    CHECK("time left", timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec <= 3000000);
    timer_delete(timer);

    int descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(descriptor, 0, &fast, NULL);
    uint64_t expirations = 0, n;
    while (expirations < 5) { MUST(read(descriptor, &n, 8) == 8); expirations += n; }
    CHECK("timerfd", expirations >= 5);

    pthread_t sleepers[5];
    void *good;
    for (intptr_t i = 0; i < 5; i++) MUST(pthread_create(&sleepers[i], NULL, sleeper, (void *)(5 + 3 * i)) == 0);
    for (int i = 0; i < 5; i++) {
        pthread_join(sleepers[i], &good);
        CHECK("slept long enough", good != NULL);
    }
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 5000000;
    if (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    CHECK("absolute sleep", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0);
    CHECK("bad sleep", ({ struct timespec bad = {0, 1000000000}; nanosleep(&bad, NULL) == -1 && errno == EINVAL; }));
    return 0;
}
