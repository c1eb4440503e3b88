// Thread-local data in the initial block: program and library, aligned, initialised, per thread.
//@ lib: -O1 -ftls-model=initial-exec
//@ cc: {lib} -pthread -O2
//@ threaded
#include "check.h"
#include <pthread.h>

#ifdef LIB
__thread long library_value = 7;
long library_add(long n) { return library_value += n; }
#else
extern __thread long library_value;
long library_add(long n);
static __thread struct {
    char text[24];
    double number;
} local = {"thread-local text", 2.5};
static __thread int aligned __attribute__((aligned(256))) = 3;
static __thread int touched[2000];

static void *worker(void *argument) {
    long id = (long)argument;
    int fresh = !strcmp(local.text, "thread-local text") && local.number == 2.5 && touched[1999] == 0;
    snprintf(local.text, sizeof local.text, "thread %ld", id);
    local.number *= id;
    touched[1999] = 1;
    aligned += id;
    library_add(id);
    int right = aligned == 3 + id && library_value == 7 + id && (uintptr_t)&aligned % 256 == 0;
    return (void *)(long)(fresh && right);
}

int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        MUST(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK("thread sees its own", result != NULL);
    }
    printf("main: %s %g %d %ld\n", local.text, local.number, aligned, library_value);
    // The copy is reached both ways: through fs:0 and by address.
    void *self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    CHECK("below the thread pointer", (char *)&aligned < (char *)self && (char *)self - (char *)&aligned < 65536);
    return 0;
}
#endif
