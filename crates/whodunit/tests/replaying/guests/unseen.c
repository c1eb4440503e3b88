// Takes bytes from outside that it never looks at: into a variable, and in a thread onto its stack, which then gives the
// turn to the other thread and back. Prints where they are.
//@ cc: -O1 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

static struct sysinfo variable;

static void *take(void *unused) {
    struct sysinfo local;
    if (sysinfo(&local)) abort();
    printf("local %p\n", (void *)&local);
    for (int i = 0; i < 3; i++) sched_yield();
    return unused;
}

int main(void) {
    pthread_t thread;
    if (sysinfo(&variable)) abort();
    printf("variable %p\n", (void *)&variable);
    fflush(stdout);
    if (pthread_create(&thread, NULL, take, NULL)) abort();
    for (int i = 0; i < 3; i++) sched_yield();
    pthread_join(thread, NULL);
    return 0;
}
