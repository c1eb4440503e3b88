// A thread spins on an atomic flag; what was written before the flag was set is plain data.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define FIELDS 8

static struct {
    int fields[FIELDS];
    char name[16];
} header;

static atomic_int ready;

static void *produce(void *unused)
{
    (void)unused;
    for (int number = 0; number < FIELDS; number++)
        header.fields[number] = 3 * number + 1;
    snprintf(header.name, sizeof header.name, "block %d", 900);
    atomic_store_explicit(&ready, 1, memory_order_release);
    return NULL;
}

static void *consume(void *sum)
{
    while (!atomic_load_explicit(&ready, memory_order_acquire))
        sched_yield();
    for (int number = 0; number < FIELDS; number++)
        *(long *)sum += header.fields[number];
    return NULL;
}

int main(void)
{
    pthread_t consumers[2], producer;
    long sums[2] = {0, 0};
    for (int number = 0; number < 2; number++)
        pthread_create(&consumers[number], NULL, consume, &sums[number]);
    pthread_create(&producer, NULL, produce, NULL);
    for (int number = 0; number < 2; number++)
        pthread_join(consumers[number], NULL);
    pthread_join(producer, NULL);
    printf("%s, sums %ld %ld\n", header.name, sums[0], sums[1]);
    return 0;
}
