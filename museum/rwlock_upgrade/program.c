// Two readers of a cache find an entry missing and both ask for the write lock without giving up the read lock.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("reading 0", "reading 1", "writing 0");

#define ENTRIES 16

// A reader-writer lock whose reader may ask to write, as many own ones allow.
struct shared_lock {
    int n_readers, writing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static struct shared_lock cache_lock = {0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int entries[ENTRIES];
static int n_computed;

static void lock_shared(struct shared_lock *shared)
{
    pthread_mutex_lock(&shared->lock);
    while (shared->writing)
        pthread_cond_wait(&shared->changed, &shared->lock);
    shared->n_readers++; /* guilty: share */
    pthread_mutex_unlock(&shared->lock);
}

static void unlock_shared(struct shared_lock *shared)
{
    pthread_mutex_lock(&shared->lock);
    shared->n_readers--;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
}

static void lock_to_write(struct shared_lock *shared, int n_own)
{
    pthread_mutex_lock(&shared->lock);
    while (shared->writing || shared->n_readers > n_own)
        pthread_cond_wait(&shared->changed, &shared->lock); /* guilty: upgrade */
    shared->writing = 1;
    pthread_mutex_unlock(&shared->lock);
}

static void unlock_write(struct shared_lock *shared)
{
    pthread_mutex_lock(&shared->lock);
    shared->writing = 0;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
}

static void compute(int number)
{
    if (entries[number])
        return;
    entries[number] = number * number + 1;
    n_computed++;
}

static void look_up(int number, int thread)
{
    (void)thread;
    lock_shared(&cache_lock);
    AT_NUMBER("reading", thread);
    int missing = !entries[number];
    AT_NUMBER("writing", thread);
#ifdef FIXED
    unlock_shared(&cache_lock);
    if (missing) {
        lock_to_write(&cache_lock, 0);
        compute(number);
        unlock_write(&cache_lock);
    }
#else
    if (missing) {
        lock_to_write(&cache_lock, 1);
        compute(number);
        unlock_write(&cache_lock);
    }
    unlock_shared(&cache_lock);
#endif
}

static void *read_all(void *argument)
{
    for (int number = 0; number < ENTRIES; number++)
        look_up(number, *(int *)argument);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, read_all, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("%d computed\n", n_computed);
    return 0;
}
