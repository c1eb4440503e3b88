// A ring between one producer and one consumer: slots are plain, head and tail are atomic.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define SLOTS 8
#define ITEMS 200

struct item {
    int number;
    unsigned check;
};

static struct item slots[SLOTS];
static atomic_uint head, tail;

static void put(struct item item)
{
    unsigned at = atomic_load_explicit(&tail, memory_order_relaxed);
    while (at - atomic_load_explicit(&head, memory_order_acquire) == SLOTS)
        sched_yield();
    slots[at % SLOTS] = item;
    atomic_store_explicit(&tail, at + 1, memory_order_release);
}

static struct item get(void)
{
    unsigned at = atomic_load_explicit(&head, memory_order_relaxed);
    while (at == atomic_load_explicit(&tail, memory_order_acquire))
        sched_yield();
    struct item item = slots[at % SLOTS];
    atomic_store_explicit(&head, at + 1, memory_order_release);
    return item;
}

static void *produce(void *unused)
{
    (void)unused;
    for (int number = 0; number < ITEMS; number++)
        put((struct item){number, number * 2654435761u});
    return NULL;
}

static void *consume(void *n_good)
{
    for (int number = 0; number < ITEMS; number++) {
        struct item item = get();
        *(int *)n_good += item.number == number && item.check == number * 2654435761u;
    }
    return NULL;
}

int main(void)
{
    pthread_t producer, consumer;
    int n_good = 0;
    pthread_create(&producer, NULL, produce, NULL);
    pthread_create(&consumer, NULL, consume, &n_good);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    printf("%d of %d\n", n_good, ITEMS);
    return 0;
}
