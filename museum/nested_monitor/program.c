// A consumer waits for the inner queue to fill while it holds the outer lock that every producer needs first.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("entered", "producing");

#define ITEMS 12

static pthread_mutex_t service_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int items[ITEMS];
    int head, tail;
    pthread_mutex_t lock;
    pthread_cond_t filled;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static int n_requests;

static void put(int item)
{
    pthread_mutex_lock(&queue.lock);
    queue.items[queue.tail++] = item;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static int get(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.head == queue.tail)
        pthread_cond_wait(&queue.filled, &queue.lock); /* guilty: wait */
    int item = queue.items[queue.head++];
    pthread_mutex_unlock(&queue.lock);
    return item;
}

static void *produce(void *unused)
{
    (void)unused;
    AT("producing");
    for (int number = 0; number < ITEMS; number++) {
        pthread_mutex_lock(&service_lock); /* guilty: outer */
        n_requests++;
        put(number);
        pthread_mutex_unlock(&service_lock);
    }
    return NULL;
}

static void *consume(void *sum)
{
    for (int number = 0; number < ITEMS; number++) {
#ifdef FIXED
        int item = get();
        pthread_mutex_lock(&service_lock);
        AT("entered");
#else
        pthread_mutex_lock(&service_lock); /* guilty: hold */
        AT("entered");
        int item = get();
#endif
        *(int *)sum += item;
        pthread_mutex_unlock(&service_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t producer, consumer;
    int sum = 0;
    pthread_create(&producer, NULL, produce, NULL);
    pthread_create(&consumer, NULL, consume, &sum);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    printf("%d requests, sum %d\n", n_requests, sum);
    return 0;
}
