// Threads that all wait for each other until a signal comes use no processor time meanwhile.
//@ cc: -O2 -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static double before;

static void alarmed(int signal) {
    CHECK("idle", signal == SIGALRM && processor_seconds() - before < 0.2);
    exit(0);
}

static atomic_int started;

static void *wait_for_mutex(void *argument) {
    started = 1;
    pthread_mutex_lock(&held);
    return argument;
}

int main(void) {
    signal(SIGALRM, alarmed);
    pthread_mutex_lock(&held);
    pthread_t other;
    MUST(pthread_create(&other, NULL, wait_for_mutex, NULL) == 0);
    // The first thread is the last to wait.
    while (!started)
        sched_yield();
    before = processor_seconds();
    alarm(1);
    pthread_mutex_lock(&held);
}
