// memcached 127: an increment looks an item up and changes it later; another has replaced the item by a longer one meanwhile.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("found 0", "finding 1", "incremented 1", "incrementing 0");

#define THREADS 2
#define INCREMENTS 15

struct item {
    int linked;
    int n_bytes;
    char data[24];
};

static struct item *stored;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t item_lock = PTHREAD_MUTEX_INITIALIZER;

static struct item *new_item(long value)
{
    struct item *item = calloc(1, sizeof *item);
    item->n_bytes = snprintf(item->data, sizeof item->data, "%ld", value);
    item->linked = 1;
    return item;
}

static struct item *item_get(void)
{
    pthread_mutex_lock(&cache_lock);
    struct item *item = stored; /* guilty: find */
    pthread_mutex_unlock(&cache_lock);
    return item;
}

static void add_delta(struct item *item, long delta)
{
    char text[24];
    pthread_mutex_lock(&cache_lock);
    long value = atol(item->data) + delta; /* guilty: add */
    int length = snprintf(text, sizeof text, "%ld", value);
    if (length > item->n_bytes) {
        item->linked = 0;
        stored = new_item(value); /* guilty: replace */
    } else {
        memcpy(item->data, text, length);
    }
    pthread_mutex_unlock(&cache_lock);
}

static void *increment(void *argument)
{
    int self = *(int *)argument;
    for (int number = 0; number < INCREMENTS; number++) {
#ifdef FIXED
        pthread_mutex_lock(&item_lock);
#endif
        AT_NUMBER("finding", self);
        struct item *item = item_get();
        AT_NUMBER("found", self);
        AT_NUMBER("incrementing", self);
        add_delta(item, 1);
#ifdef FIXED
        pthread_mutex_unlock(&item_lock);
#endif
    }
    AT_NUMBER("incremented", self);
    (void)self;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    (void)item_lock;
    stored = new_item(0);
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, increment, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("value %s\n", stored->data);
    return 0;
}
