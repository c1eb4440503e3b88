// Apache's memory cache: a handle to a cached object is kept across two locked calls, while an insertion evicts and frees it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("inserted 0", "inserting 1", "evicted", "resizing 0");

#define SLOTS 4
#define BUDGET 4000
#define OBJECTS 10

struct cache_object {
    int *header;
    int size;
    int key;
};

static struct cache_object *table[SLOTS];
static int cache_size;
static int n_cached, n_resized;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t owner_lock = PTHREAD_MUTEX_INITIALIZER;

static void evict(int slot)
{
    struct cache_object *object = table[slot];
    cache_size -= object->size;
    table[slot] = NULL;
    free(object->header);
    object->header = NULL;
    free(object); /* guilty: evict */
}

static struct cache_object *cache_insert(int key, int size)
{
    struct cache_object *object = malloc(sizeof *object);
    object->header = calloc(4, sizeof *object->header);
    object->size = size;
    object->key = key;
    pthread_mutex_lock(&cache_lock);
    for (int slot = 0; slot < SLOTS && cache_size + size > BUDGET; slot++)
        if (table[slot])
            evict(slot);
    int slot = key % SLOTS;
    if (table[slot])
        evict(slot);
    table[slot] = object; /* guilty: insert */
    cache_size += size;
    n_cached++;
    pthread_mutex_unlock(&cache_lock);
    return object;
}

static void cache_resize(struct cache_object *object, int size)
{
    pthread_mutex_lock(&cache_lock);
    object->header[0] = size; /* guilty: resize */
    cache_size += size - object->size;
    object->size = size;
    n_resized++;
    pthread_mutex_unlock(&cache_lock);
}

static void *store_bodies(void *argument)
{
    int self = *(int *)argument;
    for (int number = 0; number < OBJECTS; number++) {
#ifdef FIXED
        pthread_mutex_lock(&owner_lock);
#endif
        AT_NUMBER("inserting", self);
        struct cache_object *object = cache_insert(number * 2 + self, 1500);
        AT_NUMBER("inserted", self);
        if (self == 1 && number == 2)
            AT("evicted");
        AT_NUMBER("resizing", self);
        cache_resize(object, 1000 + number);
#ifdef FIXED
        pthread_mutex_unlock(&owner_lock);
#endif
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    (void)owner_lock;
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, store_bodies, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("%d cached, %d resized\n", n_cached, n_resized);
    return 0;
}
