// A consumer that was woken for an item does not look again; another has come by and taken it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("waits 0", "putting", "pushed", "coming 1", "took 1", "signalling", "took 0", "going-on");

#define CONSUMERS 2
#define ITEMS 16

struct item {
    int value;
    struct item *next;
};

static struct item *queue_head;
static int closed;
static long sum;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;

static void put(int value)
{
    struct item *item = malloc(sizeof *item);
    item->value = value;
    AT("putting");
    pthread_mutex_lock(&queue_lock);
    item->next = queue_head;
    queue_head = item; /* guilty: put */
    pthread_mutex_unlock(&queue_lock);
    AT("pushed");
    AT("signalling");
    pthread_cond_signal(&queue_filled); /* guilty: signal */
    AT("going-on");
}

static void wait_for_item(int self)
{
    (void)self;
#ifdef FIXED
    while (!queue_head && !closed) {
#else
    if (!queue_head && !closed) { /* guilty: look */
#endif
        AT_NUMBER("waits", self);
        pthread_cond_wait(&queue_filled, &queue_lock);
    }
}

static int take(int self)
{
    AT_NUMBER("coming", self);
    pthread_mutex_lock(&queue_lock);
    wait_for_item(self);
    if (closed && !queue_head) {
        pthread_mutex_unlock(&queue_lock);
        return 0;
    }
    struct item *item = queue_head;
    queue_head = item->next; /* guilty: take */
    sum += item->value;
    pthread_mutex_unlock(&queue_lock);
    AT_NUMBER("took", self);
    free(item);
    return 1;
}

static void *consume(void *argument)
{
    while (take(*(int *)argument))
        ;
    return NULL;
}

static void *produce(void *unused)
{
    (void)unused;
    for (int value = 1; value <= ITEMS; value++)
        put(value);
    pthread_mutex_lock(&queue_lock);
    closed = 1;
    pthread_cond_broadcast(&queue_filled);
    pthread_mutex_unlock(&queue_lock);
    return NULL;
}

int main(void)
{
    pthread_t consumers[CONSUMERS], producer;
    int numbers[CONSUMERS];
    pthread_create(&producer, NULL, produce, NULL);
    for (int number = 0; number < CONSUMERS; number++) {
        numbers[number] = number;
        pthread_create(&consumers[number], NULL, consume, &numbers[number]);
    }
    pthread_join(producer, NULL);
    for (int number = 0; number < CONSUMERS; number++)
        pthread_join(consumers[number], NULL);
    printf("sum %ld\n", sum);
    return 0;
}
