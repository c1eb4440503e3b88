// main leaves by pthread_exit while others go on; the process ends with status 0 when the last thread does.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>

static pthread_t main_thread;
static void *last(void *unused) {
    (void)unused;
    void *result;
    int r = pthread_join(main_thread, &result);
    printf("main joined %d, result %ld\n", r, (long)(intptr_t)result);
    volatile long sum = 0;
    for (int i = 0; i < 100000; i++) sum += i;
    printf("worked on %ld\n", sum);
    return NULL;
}
static void at_end(void) { puts("atexit runs in the last thread"); }
int main(void) {
    pthread_t thread;
    main_thread = pthread_self();
    atexit(at_end);
    MUST(pthread_create(&thread, NULL, last, NULL) == 0);
    pthread_exit((void *)12);
}
