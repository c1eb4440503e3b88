// One thread writes new code, others run it, with proper hand-over: nobody ever runs a stale version.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 3, VERSIONS = 60 };
static unsigned char *code;
static pthread_barrier_t barrier;
static long sums[THREADS];

static void *runs(void *argument) {
    int id = (int)(intptr_t)argument;
    for (int version = 0; version < VERSIONS; version++) {
        pthread_barrier_wait(&barrier); // the code is ready
        for (int i = 0; i < 10; i++) sums[id] += ((int (*)(int))(void *)code)(id);
        pthread_barrier_wait(&barrier); // everybody is done with it
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(code != MAP_FAILED);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (intptr_t i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, runs, (void *)i) == 0);
    for (int version = 0; version < VERSIONS; version++) {
        unsigned char bytes[] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3}; // lea eax, [rdi+version]; ret
        memcpy(bytes + 2, &version, 4);
        memcpy(code, bytes, sizeof bytes);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("thread %d: %ld\n", i, sums[i]);
    }
    return 0;
}
