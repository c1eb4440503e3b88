// Threads that wait by spinning on memory, without yielding: each must make progress, or nobody ever ends.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 4 };
static atomic_int turn, flag_for_main, go, ticket_next, ticket_serving, peterson_flag[2], peterson_turn;
static volatile int plain_flag;
static long protected_count;

static void *in_turn(void *argument) {
    int id = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != id)
            ;
        atomic_store_explicit(&turn, (id + 1) % THREADS, memory_order_release);
    }
    return NULL;
}
static void *waits_plain(void *unused) {
    (void)unused;
    while (!plain_flag)
        ;
    atomic_store(&flag_for_main, 1);
    return NULL;
}
static void *waits_pausing(void *unused) { (void)unused; while (!atomic_load(&go)) __builtin_ia32_pause(); return NULL; }
static void *waits_yielding(void *unused) { (void)unused; while (!atomic_load(&go)) sched_yield(); return NULL; }
static void *takes_tickets(void *unused) {
    (void)unused;
    for (int i = 0; i < 50; i++) {
        int mine = atomic_fetch_add(&ticket_next, 1);
        while (atomic_load(&ticket_serving) != mine)
            ;
        protected_count++;
        atomic_fetch_add(&ticket_serving, 1);
    }
    return NULL;
}
static void *peterson(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 100; i++) {
        atomic_store(&peterson_flag[me], 1);
        atomic_store(&peterson_turn, 1 - me);
        while (atomic_load(&peterson_flag[1 - me]) && atomic_load(&peterson_turn) == 1 - me)
            ;
        protected_count++;
        atomic_store(&peterson_flag[me], 0);
    }
    return NULL;
}
static void run(const char *name, int n, void *(*body)(void *), void (*meanwhile)(void)) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < n; i++)
        MUST(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    if (meanwhile)
        meanwhile();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("%s, count %ld\n", name, protected_count);
}
static void raise_plain(void) { plain_flag = 1; while (!atomic_load(&flag_for_main)); }
static void raise_go(void) { atomic_store(&go, 1); }

int main(void) {
    run("in turn", THREADS, in_turn, NULL);
    run("plain flag", 1, waits_plain, raise_plain);
    run("pausing", 3, waits_pausing, raise_go);
    atomic_store(&go, 0);
    run("yielding", 3, waits_yielding, raise_go);
    run("tickets", 2, takes_tickets, NULL);
    run("peterson", 2, peterson, NULL);
    return 0;
}
