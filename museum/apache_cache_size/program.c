// Apache 21285: an entry goes in with a default size and later with its true one; evicted in between, it is subtracted twice.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("inserted 0", "opening 1", "finished 1", "finishing 0");

#define DEFAULT_SIZE 1000
#define MAX_SIZE 1500
#define ENTITIES 12

struct entry {
    int key, size, in_table;
    struct entry *next;
};

static struct entry *entries;
static long current_size;
static int n_finished;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static void insert(struct entry *entry, int size)
{
    while (entries && current_size + size > MAX_SIZE) {
        struct entry *victim = entries;
        entries = victim->next;
        victim->in_table = 0;
        current_size -= victim->size; /* guilty: evict */
    }
    entry->size = size;
    entry->in_table = 1;
    entry->next = entries;
    entries = entry;
    current_size += size; /* guilty: insert */
}

static void remove_entry(struct entry *entry)
{
    struct entry **link = &entries;
    while (*link && *link != entry)
        link = &(*link)->next;
    if (*link)
        *link = entry->next;
#ifdef FIXED
    if (!entry->in_table)
        return;
#endif
    entry->in_table = 0;
    current_size -= entry->size; /* guilty: remove */
}

static struct entry *open_entity(int key)
{
    struct entry *entry = calloc(1, sizeof *entry);
    entry->key = key;
    pthread_mutex_lock(&cache_lock);
    insert(entry, DEFAULT_SIZE);
    pthread_mutex_unlock(&cache_lock);
    return entry;
}

static void finish_entity(struct entry *entry, int size)
{
    pthread_mutex_lock(&cache_lock);
    remove_entry(entry);
    insert(entry, size);
    n_finished++;
    pthread_mutex_unlock(&cache_lock);
}

static void *cache_entities(void *argument)
{
    int self = *(int *)argument;
    for (int number = 0; number < ENTITIES; number++) {
        AT_NUMBER("opening", self);
        struct entry *entry = open_entity(number * 2 + self);
        AT_NUMBER("inserted", self);
        int size = 300;
        for (int byte = 0; byte < 60; byte++)
            size += byte % 7;
        AT_NUMBER("finishing", self);
        finish_entity(entry, size);
        AT_NUMBER("finished", self);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    long sum = 0;
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, cache_entities, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    for (struct entry *entry = entries; entry; entry = entry->next)
        sum += entry->size;
    if (sum != current_size) {
        printf("the cache holds %ld, its size says %ld\n", sum, current_size);
        return 1;
    }
    printf("%d entities\n", n_finished);
    return 0;
}
