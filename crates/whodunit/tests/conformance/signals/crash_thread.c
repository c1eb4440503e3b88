// A thread dies of a fault while others wait and compute: the whole process ends by the signal.
//@ cc: -pthread
//@ crashes
#include "check.h"
#include <pthread.h>

static pthread_barrier_t barrier;
static void *waits(void *unused) { (void)unused; pthread_barrier_wait(&barrier); for (;;) pause(); return NULL; }
static void *computes(void *unused) { (void)unused; pthread_barrier_wait(&barrier); for (volatile long i = 0;; i++) ; return NULL; }
static void *faults(void *unused) { (void)unused; pthread_barrier_wait(&barrier); *(volatile int *)(uintptr_t)24 = 0; return NULL; }

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&barrier, NULL, 3);
    puts("starting");
    MUST(pthread_create(&threads[0], NULL, waits, NULL) == 0);
    MUST(pthread_create(&threads[1], NULL, computes, NULL) == 0);
    MUST(pthread_create(&threads[2], NULL, faults, NULL) == 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    puts("FAIL still here");
    return 0;
}
