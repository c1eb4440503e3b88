// Thread-local data of a library that is loaded at run time, in threads that live before and after.
//@ lib: -O1
//@ cc: -pthread
//@ threaded
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

#ifdef LIB
__thread int value = 1000;
static __thread char zeroes[5000];
int *value_address(void) { return &value; }
int next(void) { return ++value + zeroes[4999]; }
#else
static int (*next)(void);
static int *(*value_address)(void);
static pthread_barrier_t barrier;
static int results[4];

static void *worker(void *argument) {
    int id = (int)(intptr_t)argument;
    pthread_barrier_wait(&barrier); // this thread exists before the library does
    pthread_barrier_wait(&barrier); // and now it is loaded
    for (int i = 0; i <= id; i++)
        results[id] = next();
    return value_address();
}

int main(void) {
    pthread_t threads[4];
    void *addresses[5];
    pthread_barrier_init(&barrier, NULL, 5);
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i) == 0);
    pthread_barrier_wait(&barrier);
    void *library = dlopen(LIB_PATH, RTLD_NOW);
    MUST(library);
    next = (int (*)(void))dlsym(library, "next");
    value_address = (int *(*)(void))dlsym(library, "value_address");
    MUST(next && value_address);
    printf("main %d\n", next());
    printf("symbol lookup gives this thread's copy: %d\n", *(int *)dlsym(library, "value"));
    pthread_barrier_wait(&barrier);
    addresses[4] = value_address();
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &addresses[i]);
        printf("thread %d: %d\n", i, results[i]);
    }
    for (int i = 0; i < 4; i++)
        CHECK("not main's copy", addresses[i] != addresses[4]);
    printf("main %d\n", next());
    CHECK("close", dlclose(library) == 0);
    return 0;
}
#endif
