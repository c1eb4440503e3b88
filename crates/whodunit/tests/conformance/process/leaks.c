// LeakSanitizer stops all threads from a process that shares their memory, finds what is lost, and ends the program with its own status.
//@ cc: -g -O0 -pthread -fsanitize=leak
#include "check.h"
#include <fcntl.h>
#include <pthread.h>

int __lsan_do_recoverable_leak_check(void);
void __sanitizer_set_report_fd(void *);
static pthread_barrier_t met, done;
static void *keeper(void *nothing) {
    (void)nothing;
    char *kept = malloc(1000);
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&done);
    free(kept);
    return NULL;
}
static __attribute__((noinline)) void lose(void) { char *volatile lost = malloc(100); lost[0] = 1; lost = NULL; }
static __attribute__((noinline)) void clean_stack(void) { volatile char room[4096]; memset((char *)room, 0, sizeof room); }

int main(void) {
    pthread_t threads[3];
    // The report has process numbers and addresses in it.
    __sanitizer_set_report_fd((void *)(intptr_t)open("/dev/null", O_WRONLY));
    pthread_barrier_init(&met, NULL, 4);
    pthread_barrier_init(&done, NULL, 4);
    for (int i = 0; i < 3; i++) MUST(pthread_create(&threads[i], NULL, keeper, NULL) == 0);
    pthread_barrier_wait(&met);
    CHECK("what threads hold is no leak", __lsan_do_recoverable_leak_check() == 0);
    pthread_barrier_wait(&done);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 20; i++) lose();
    clean_stack();
    CHECK("a leak", __lsan_do_recoverable_leak_check() != 0);
    return 0;
}
