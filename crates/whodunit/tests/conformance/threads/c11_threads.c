// C11 threads and atomics: thrd, mtx, cnd, tss, call_once, lock-free counters, a lock-free stack.
//@ cc: -O2 -pthread -mcx16 -latomic
//@ threaded
#include "check.h"
#include <stdatomic.h>
#include <threads.h>

enum { THREADS = 4, NODES = 400 };
static mtx_t lock;
static cnd_t changed;
static tss_t slot;
static once_flag once = ONCE_FLAG_INIT;
static int once_count, stage, freed;
static _Thread_local int local = 1;
static atomic_long relaxed, swapped;
static atomic_uchar bytes;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static long guarded;
struct node { struct node *next; int value; };
static _Atomic(struct node *) top;

static void count_once(void) { once_count++; }
static void drop(void *value) { (void)value; mtx_lock(&lock); freed++; mtx_unlock(&lock); }
static int body(void *argument) {
    int id = (int)(intptr_t)argument;
    static struct node nodes[THREADS][NODES];
    call_once(&once, count_once);
    tss_set(slot, &nodes[id]);
    for (int i = 0; i < NODES; i++) {
        atomic_fetch_add_explicit(&relaxed, 1, memory_order_relaxed);
        atomic_fetch_xor(&bytes, 1 << id);
        long seen = atomic_load(&swapped);
        while (!atomic_compare_exchange_weak(&swapped, &seen, seen + id)) ;
        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire)) thrd_yield();
        guarded++;
        atomic_flag_clear_explicit(&flag, memory_order_release);
        struct node *node = &nodes[id][i];
        node->value = i;
        node->next = atomic_load(&top);
        while (!atomic_compare_exchange_weak(&top, &node->next, node)) ;
        local++;
    }
    mtx_lock(&lock);
    while (stage != id) cnd_wait(&changed, &lock);
    stage++;
    printf("thread %d, local %d\n", id, local);
    cnd_broadcast(&changed);
    mtx_unlock(&lock);
    return id * 3;
}

int main(void) {
    mtx_init(&lock, mtx_plain);
    cnd_init(&changed);
    tss_create(&slot, drop);
    thrd_t threads[THREADS];
    int sum = 0, result;
    for (intptr_t i = 0; i < THREADS; i++) MUST(thrd_create(&threads[i], body, (void *)i) == thrd_success);
    for (int i = 0; i < THREADS; i++) { thrd_join(threads[i], &result); sum += result; }
    printf("results %d, once %d, freed %d\n", sum, once_count, freed);
    long total = 0, count = 0;
    for (struct node *node = atomic_load(&top); node; node = node->next) { total += node->value; count++; }
    printf("relaxed %ld swapped %ld guarded %ld bytes %d stack %ld %ld\n", atomic_load(&relaxed), atomic_load(&swapped), guarded, atomic_load(&bytes), count, total);
    return 0;
}
