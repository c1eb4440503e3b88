// Takes bytes from outside that it never looks at: into a variable, and in a thread onto its stack, which then gives the
// turn to the other thread and back. Prints where they are.
//@ cc: -O1 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { SIZE = 64 };

static char variable[SIZE];

static void *take(void *unused) {
    char local[SIZE];
    if (getrandom(local, sizeof local, 0) != sizeof local) abort();
    printf("local %p\n", (void *)local);
    for (int i = 0; i < 3; i++) sched_yield();
    return unused;
}

int main(void) {
    pthread_t thread;
    if (getrandom(variable, sizeof variable, 0) != sizeof variable) abort();
    printf("variable %p\n", (void *)variable);
    fflush(stdout);
    if (pthread_create(&thread, NULL, take, NULL)) abort();
    for (int i = 0; i < 3; i++) sched_yield();
    pthread_join(thread, NULL);
    return 0;
}
