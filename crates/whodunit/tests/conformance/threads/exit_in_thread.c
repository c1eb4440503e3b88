// exit() called by a thread while main and others are blocked or busy: the whole process ends with its status.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t ready, never;
static void at_end(void) { puts("atexit"); }
static void *blocked(void *unused) { (void)unused; sem_post(&ready); sem_wait(&never); return NULL; }
static void *busy(void *unused) { (void)unused; sem_post(&ready); for (volatile long i = 0;; i++); return NULL; }
static void *leaves(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) sem_wait(&ready);
    puts("leaving");
    exit(44);
}
int main(void) {
    pthread_t thread;
    atexit(at_end);
    sem_init(&ready, 0, 0);
    sem_init(&never, 0, 0);
    MUST(pthread_create(&thread, NULL, blocked, NULL) == 0);
    MUST(pthread_create(&thread, NULL, busy, NULL) == 0);
    MUST(pthread_create(&thread, NULL, blocked, NULL) == 0);
    MUST(pthread_create(&thread, NULL, leaves, NULL) == 0);
    pthread_join(thread, NULL);
    puts("FAIL still here");
    return 1;
}
