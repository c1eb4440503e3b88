/* Four threads: first each with a mutex of its own, then all with the same one. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, UNCONTENDED = 25000000, CONTENDED = 3000000 };

struct slot {
    pthread_mutex_t mutex;
    unsigned long count;
    char padding[128];
};

static struct slot slots[THREADS + 1];

static void count(struct slot *slot, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&slot->mutex);
        slot->count += i & 3;
        pthread_mutex_unlock(&slot->mutex);
    }
}

static void *work(void *own)
{
    count(own, UNCONTENDED);
    count(&slots[THREADS], CONTENDED);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i <= THREADS; i++)
        pthread_mutex_init(&slots[i].mutex, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &slots[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= THREADS; i++)
        printf("%lu\n", slots[i].count);
    return 0;
}
