// Named semaphores between threads. Their files get random names, so the schedule is not the same in every run.
//@ cc: -O1 -pthread
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static sem_t *there, *back;
static int passed;

static void *answer(void *unused) {
    for (int i = 0; i < 100; i++) {
        sem_wait(there);
        passed++;
        sem_post(back);
    }
    return unused;
}

static sem_t *open_named(const char *kind) {
    char name[64];
    snprintf(name, sizeof name, "/conformance-%s-%d", kind, getpid());
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    MUST(semaphore != SEM_FAILED);
    MUST(sem_unlink(name) == 0);
    return semaphore;
}

int main(void) {
    there = open_named("there");
    back = open_named("back");
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, answer, NULL) == 0);
    int in_step = 1;
    for (int i = 0; i < 100; i++) {
        sem_post(there);
        sem_wait(back);
        in_step &= passed == i + 1;
    }
    pthread_join(thread, NULL);
    CHECK("in step", in_step);
    printf("passed %d\n", passed);
    return 0;
}
