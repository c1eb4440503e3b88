// Signals among threads: to one thread, to the process with masks set, many to one, to a thread blocked in a call.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum { THREADS = 4 };
static __thread int id = -1;
static volatile int hits[THREADS + 1], value_seen, stop;
static sem_t ready, seen;
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    hits[id + 1]++;
    value_seen = info->si_value.sival_int;
    sem_post(&seen);
}
static void *computes(void *argument) {
    id = (int)(intptr_t)argument;
    if (id != 2) { // only thread 2 takes SIGUSR2
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    sem_post(&ready);
    while (!stop) ;
    return NULL;
}
static void *blocks(void *end) {
    id = 0;
    char byte;
    sem_post(&ready);
    ssize_t n;
    do n = read(*(int *)end, &byte, 1); while (n == -1 && errno == EINTR);
    return (void *)(intptr_t)byte;
}

int main(void) {
    pthread_t threads[THREADS];
    sem_init(&ready, 0, 0);
    sem_init(&seen, 0, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigset_t empty;
    sigemptyset(&empty);
    for (intptr_t i = 0; i < THREADS; i++) {
        if (i == 2) pthread_sigmask(SIG_UNBLOCK, &set, NULL); // masks are inherited
        MUST(pthread_create(&threads[i], NULL, computes, (void *)i) == 0);
        if (i == 2) pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    for (int i = 0; i < THREADS; i++) while (sem_wait(&ready)) ;
    for (int i = 0; i < THREADS; i++)
        for (int n = 0; n <= i; n++) { pthread_kill(threads[i], SIGUSR1); while (sem_wait(&seen)) ; }
    for (int i = 0; i < THREADS; i++) printf("thread %d took %d\n", i, hits[i + 1]);
    for (int n = 0; n < 5; n++) { kill(getpid(), SIGUSR2); while (sem_wait(&seen)) ; }
    printf("process-directed: thread 2 now has %d, main %d\n", hits[3], hits[0]);
    pthread_sigqueue(threads[1], SIGRTMIN, (union sigval){.sival_int = 88});
    while (sem_wait(&seen)) ;
    printf("value %d, thread 1 has %d\n", value_seen, hits[2]);
    pthread_kill(pthread_self(), SIGUSR1);
    while (sem_wait(&seen)) ;
    printf("main %d\n", hits[0]);
    CHECK("tgkill of nobody", syscall(SYS_tgkill, getpid(), 999999999, SIGUSR1) == -1 && errno == ESRCH);
    stop = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    int ends[2];
    void *byte;
    MUST(pipe(ends) == 0);
    MUST(pthread_create(&threads[0], NULL, blocks, &ends[0]) == 0);
    while (sem_wait(&ready)) ;
    hits[1] = 0;
    for (int n = 0; n < 10; n++) { pthread_kill(threads[0], SIGUSR1); while (sem_wait(&seen)) ; }
    (void)!write(ends[1], "z", 1);
    pthread_join(threads[0], &byte);
    printf("blocked thread took %d, read %c\n", hits[1], (char)(intptr_t)byte);
    return 0;
}
