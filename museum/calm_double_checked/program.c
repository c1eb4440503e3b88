// Double-checked locking done right: the pointer is published with release and read with acquire.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 5

struct settings {
    int n_entries;
    int entries[16];
};

static _Atomic(struct settings *) settings;
static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_built;
static long sums[THREADS];

static struct settings *build_settings(void)
{
    struct settings *built = malloc(sizeof *built);
    built->n_entries = 16;
    for (int number = 0; number < 16; number++)
        built->entries[number] = number * number;
    n_built++;
    return built;
}

static struct settings *get_settings(void)
{
    struct settings *current = atomic_load_explicit(&settings, memory_order_acquire);
    if (current)
        return current;
    pthread_mutex_lock(&settings_lock);
    current = atomic_load_explicit(&settings, memory_order_relaxed);
    if (!current) {
        current = build_settings();
        atomic_store_explicit(&settings, current, memory_order_release);
    }
    pthread_mutex_unlock(&settings_lock);
    return current;
}

static void *work(void *argument)
{
    int self = *(int *)argument;
    for (int round = 0; round < 50; round++) {
        struct settings *current = get_settings();
        sums[self] += current->entries[round % current->n_entries];
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    long sum = 0;
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, work, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++) {
        pthread_join(threads[number], NULL);
        sum += sums[number];
    }
    printf("built %d times, sum %ld\n", n_built, sum);
    return 0;
}
