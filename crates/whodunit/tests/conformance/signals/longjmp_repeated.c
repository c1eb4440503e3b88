// A thousand faults left by siglongjmp, from changing depths, in main and in threads.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

static __thread sigjmp_buf out;
static void handler(int signal) { siglongjmp(out, signal); }
__attribute__((noinline)) static int descend(int depth) {
    char pad[64];
    __asm__ volatile("" : : "r"(pad) : "memory");
    if (depth) return descend(depth - 1) + 1;
    return *(volatile int *)(uintptr_t)16;
}
static void *many(void *count) {
    volatile long caught = 0;
    for (volatile long i = 0; i < (long)count; i++)
        if (sigsetjmp(out, 1) == SIGSEGV) caught++;
        else descend(i % 50);
    return (void *)caught;
}
int main(void) {
    signal(SIGSEGV, handler);
    printf("main caught %ld\n", (long)many((void *)1000));
    pthread_t threads[3];
    void *caught;
    for (int i = 0; i < 3; i++) MUST(pthread_create(&threads[i], NULL, many, (void *)200) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &caught);
        printf("thread caught %ld\n", (long)caught);
    }
    return 0;
}
