// fork while other threads run and hold locks: the child has one thread, sane atfork handlers, and may go on threading.
//@ cc: -O1 -pthread
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;
static volatile long work;
static char order[16];
static __thread int local = 5;
static void prepare(void) { pthread_mutex_lock(&lock); strcat(order, "p"); }
static void in_parent(void) { strcat(order, "P"); pthread_mutex_unlock(&lock); }
static void in_child(void) { strcat(order, "C"); pthread_mutex_unlock(&lock); }
static void *busy(void *unused) {
    (void)unused;
    while (!stop) { pthread_mutex_lock(&lock); work++; free(malloc(100 + work % 1000)); pthread_mutex_unlock(&lock); }
    return NULL;
}
static void *adds(void *n) { return (void *)((intptr_t)n + 1); }
static int threads_alive(void) {
    int n = 0;
    DIR *directory = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(directory));) n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}
static void *forks(void *unused) {
    (void)unused;
    local = 9;
    pid_t child = fork();
    if (child == 0) { printf("forked by a thread: local %d, threads %d\n", local, threads_alive()); _exit(local); }
    int status;
    waitpid(child, &status, 0);
    return (void *)(intptr_t)WEXITSTATUS(status);
}

int main(void) {
    pthread_t threads[3], one;
    void *result;
    pthread_atfork(prepare, in_parent, in_child);
    for (int i = 0; i < 3; i++) MUST(pthread_create(&threads[i], NULL, busy, NULL) == 0);
    while (!work) sched_yield(); // they are at it
    for (int round = 0; round < 5; round++) {
        order[0] = 0;
        pid_t child = fork();
        if (child == 0) {
            printf("child %d: order %s, threads %d\n", round, order, threads_alive());
            free(malloc(5000));
            MUST(pthread_create(&one, NULL, adds, (void *)(intptr_t)round) == 0);
            pthread_join(one, &result);
            exit(10 + (int)(intptr_t)result);
        }
        int status;
        waitpid(child, &status, 0);
        printf("parent: order %s, status %d\n", order, WEXITSTATUS(status));
    }
    MUST(pthread_create(&one, NULL, forks, NULL) == 0);
    pthread_join(one, &result);
    printf("thread's child %ld\n", (long)(intptr_t)result);
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
