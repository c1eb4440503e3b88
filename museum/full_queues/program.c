// A parser and a linker exchange work over two bounded queues; when both queues are full, both wait for room.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("drained 0", "drained 1", "sending 0", "sending 1");

#define ROOM 4
#define BATCHES 2
#define BATCH 5

struct queue {
    int items[ROOM];
    int head, tail;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static struct queue queues[2] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
};
static int n_received[2];

static void put(struct queue *queue, int item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->tail - queue->head == ROOM)
        pthread_cond_wait(&queue->changed, &queue->lock); /* guilty: wait-for-room */
    queue->items[queue->tail++ % ROOM] = item;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static int get(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->head == queue->tail)
        pthread_cond_wait(&queue->changed, &queue->lock);
    int item = queue->items[queue->head++ % ROOM];
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static int waiting_in(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    int n_items = queue->tail - queue->head;
    pthread_mutex_unlock(&queue->lock);
    return n_items;
}

static void receive(int self)
{
    get(&queues[self]);
    n_received[self]++;
}

static void *exchange(void *argument)
{
    int self = *(int *)argument, other = !self;
    for (int batch = 0; batch < BATCHES; batch++) {
        while (waiting_in(&queues[self]) > 0) // first what has come, then a batch of its own
            receive(self);
        AT_NUMBER("drained", self);
        AT_NUMBER("sending", self);
        for (int item = 0; item < BATCH; item++) {
#ifdef FIXED
            while (waiting_in(&queues[self]) > 0)
                receive(self);
#endif
            put(&queues[other], item); /* guilty: send */
        }
    }
    while (n_received[self] < BATCHES * BATCH)
        receive(self);
    return NULL;
}

int main(void)
{
    pthread_t parser, linker;
    int numbers[2] = {0, 1};
    pthread_create(&parser, NULL, exchange, &numbers[0]);
    pthread_create(&linker, NULL, exchange, &numbers[1]);
    pthread_join(parser, NULL);
    pthread_join(linker, NULL);
    printf("%d and %d received\n", n_received[0], n_received[1]);
    return 0;
}
