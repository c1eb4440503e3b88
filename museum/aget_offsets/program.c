// Aget: download threads add to their offset and then, locked, to the total; an interrupt saves the offsets and then the total.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("advanced 0", "saving", "saved", "counting 0");

#define THREADS 3
#define CHUNKS 12
#define CHUNK_SIZE 512

static volatile long offsets[THREADS];
static long bytes_written;
static pthread_mutex_t bytes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t download_lock = PTHREAD_MUTEX_INITIALIZER;
static char files[THREADS][CHUNK_SIZE];

static struct {
    long offsets[THREADS];
    long total;
} saved;

static void write_chunk(int self, int chunk)
{
    for (int byte = 0; byte < CHUNK_SIZE; byte += 16)
        files[self][byte] = chunk;
}

static void *http_get(void *argument)
{
    int self = *(int *)argument;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        write_chunk(self, chunk);
#ifdef FIXED
        pthread_mutex_lock(&download_lock);
#endif
        offsets[self] += CHUNK_SIZE; /* guilty: advance */
        AT_NUMBER("advanced", self);
        AT_NUMBER("counting", self);
        pthread_mutex_lock(&bytes_lock);
        bytes_written += CHUNK_SIZE; /* guilty: count */
        pthread_mutex_unlock(&bytes_lock);
#ifdef FIXED
        pthread_mutex_unlock(&download_lock);
#endif
    }
    return NULL;
}

static void *save_log(void *unused)
{
    (void)unused;
    AT("saving");
#ifdef FIXED
    pthread_mutex_lock(&download_lock);
#endif
    for (int self = 0; self < THREADS; self++)
        saved.offsets[self] = offsets[self]; /* guilty: save-offset */
    pthread_mutex_lock(&bytes_lock);
    saved.total = bytes_written; /* guilty: save-total */
    pthread_mutex_unlock(&bytes_lock);
#ifdef FIXED
    pthread_mutex_unlock(&download_lock);
#endif
    AT("saved");
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS], saver;
    int numbers[THREADS];
    long sum = 0;
    (void)download_lock;
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, http_get, &numbers[number]);
    }
    pthread_create(&saver, NULL, save_log, NULL);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    pthread_join(saver, NULL);
    for (int number = 0; number < THREADS; number++)
        sum += saved.offsets[number];
    if (sum != saved.total) {
        printf("saved offsets and total differ by %ld\n", sum - saved.total);
        return 1;
    }
    printf("downloaded %ld\n", bytes_written);
    return 0;
}
