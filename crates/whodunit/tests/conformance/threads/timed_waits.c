// Every wait with a time limit: mutexes, conditions, read-write locks, semaphores, joins; on both clocks.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;

static struct timespec soon(clockid_t clock, long milliseconds) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += milliseconds * 1000000;
    while (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    while (t.tv_nsec < 0) { t.tv_nsec += 1000000000; t.tv_sec--; }
    return t;
}
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }

#define TIMES_OUT(name, call) do { long start = now(); int r = (call); CHECK(name, r == ETIMEDOUT && now() - start >= 9); } while (0)

static void *body(void *unused) {
    (void)unused;
    struct timespec t = soon(CLOCK_REALTIME, 10);
    TIMES_OUT("timedlock", pthread_mutex_timedlock(&mutex, &t));
    t = soon(CLOCK_MONOTONIC, 10);
    TIMES_OUT("clocklock", pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &t));
    t = soon(CLOCK_REALTIME, -10);
    CHECK("already past", pthread_mutex_timedlock(&mutex, &t) == ETIMEDOUT);
    t = (struct timespec){0, -1};
    CHECK("nonsense", pthread_mutex_timedlock(&mutex, &t) == EINVAL);
    t = soon(CLOCK_REALTIME, 10);
    TIMES_OUT("timedrdlock", pthread_rwlock_timedrdlock(&rwlock, &t));
    t = soon(CLOCK_REALTIME, 10);
    TIMES_OUT("timedwrlock", pthread_rwlock_timedwrlock(&rwlock, &t));
    return NULL;
}
static void *waits(void *unused) {
    (void)unused;
    pthread_mutex_lock(&other);
    struct timespec t = soon(CLOCK_REALTIME, 15000);
    int r = pthread_cond_timedwait(&condition, &other, &t);
    pthread_mutex_unlock(&other);
    return (void *)(intptr_t)r;
}
static void *never_ends(void *unused) { (void)unused; sem_wait(&semaphore); return NULL; }

int main(void) {
    pthread_t thread;
    void *result;
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    pthread_join(thread, NULL);
    struct timespec t = soon(CLOCK_REALTIME, 10);
    pthread_mutex_lock(&other);
    TIMES_OUT("cond_timedwait", pthread_cond_timedwait(&condition, &other, &t));
    t = soon(CLOCK_MONOTONIC, 10);
    TIMES_OUT("cond_clockwait", pthread_cond_clockwait(&condition, &other, CLOCK_MONOTONIC, &t));
    pthread_mutex_unlock(&other);
    pthread_cond_t monotonic;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    t = soon(CLOCK_MONOTONIC, 10);
    pthread_mutex_lock(&other);
    TIMES_OUT("condition on the monotonic clock", pthread_cond_timedwait(&monotonic, &other, &t));
    pthread_mutex_unlock(&other);
    t = soon(CLOCK_REALTIME, 10);
    CHECK("sem_timedwait", sem_timedwait(&semaphore, &t) == -1 && errno == ETIMEDOUT);
    t = soon(CLOCK_MONOTONIC, 10);
    CHECK("sem_clockwait", sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t) == -1 && errno == ETIMEDOUT);
    CHECK("sem_trywait", sem_trywait(&semaphore) == -1 && errno == EAGAIN);
    // A wait that is satisfied before its limit: signalled until it is seen.
    MUST(pthread_create(&thread, NULL, waits, NULL) == 0);
    for (;;) {
        pthread_mutex_lock(&other);
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&other);
        if (pthread_tryjoin_np(thread, &result) == 0)
            break;
        usleep(1000);
    }
    CHECK("signalled in time", result == NULL);
    MUST(pthread_create(&thread, NULL, never_ends, NULL) == 0);
    CHECK("tryjoin", pthread_tryjoin_np(thread, NULL) == EBUSY);
    t = soon(CLOCK_REALTIME, 10);
    CHECK("timedjoin", pthread_timedjoin_np(thread, NULL, &t) == ETIMEDOUT);
    sem_post(&semaphore);
    pthread_join(thread, NULL);
    return 0;
}
