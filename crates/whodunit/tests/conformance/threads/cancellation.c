// Cancellation: deferred, disabled, asynchronous, in blocked calls; cleanup handlers in order.
//@ cc: -O1 -pthread -fexceptions
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t ready, never;
static volatile int reached;
static char order[64];

static void note(void *letter) { strcat(order, letter); }

static void *in_sem_wait(void *unused) {
    (void)unused;
    pthread_cleanup_push(note, "a");
    pthread_cleanup_push(note, "b");
    sem_post(&ready);
    sem_wait(&never);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *disabled(void *unused) {
    (void)unused;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    sem_post(&ready);
    sem_wait(&never); // posted once by main after the cancel
    reached = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    pthread_testcancel();
    reached = 2;
    return NULL;
}
static void *asynchronous(void *unused) {
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sem_post(&ready);
    for (volatile unsigned long i = 0;; i++) // no cancellation point at all
        ;
    return NULL;
}
static void *in_cond_wait(void *argument) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &mutex);
    sem_post(&ready);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return argument;
}
static void *in_pause(void *unused) { (void)unused; sem_post(&ready); for (;;) pause(); return NULL; }
static void *in_sleep(void *unused) { (void)unused; sem_post(&ready); sleep(1000); return NULL; }

static void cancel(const char *name, void *(*body)(void *)) {
    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    sem_wait(&ready);
    pthread_cancel(thread);
    if (body == disabled)
        sem_post(&never);
    pthread_join(thread, &result);
    printf("%s: %s\n", name, result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

int main(void) {
    sem_init(&ready, 0, 0);
    sem_init(&never, 0, 0);
    cancel("sem_wait", in_sem_wait);
    printf("cleanups %s\n", order);
    cancel("disabled", disabled);
    printf("reached %d\n", reached);
    cancel("asynchronous", asynchronous);
    cancel("cond_wait", in_cond_wait);
    cancel("cond_wait again", in_cond_wait); // the mutex was given back
    cancel("pause", in_pause);
    cancel("sleep", in_sleep);
    return 0;
}
