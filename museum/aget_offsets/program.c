// Aget: download threads add to their offset and then, locked, to the total; an interrupt stops them and saves the offsets and then
// the total, without waiting for the chunks that are on the way.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"
#include "state.h"

// The others have stopped before anything is saved: what one of them does meanwhile could make up for the first one's.
SHOW_ORDER("advanced 0", "cancelling", "stopped 1", "stopped 2", "saving", "saved", "counting 0");

#define THREADS 3
#define CHUNKS 12
#define CHUNK_SIZE 512
#define INTERRUPTED_AT (THREADS * CHUNKS * CHUNK_SIZE / 3)

static volatile long offsets[THREADS];
static long bytes_written;
static pthread_mutex_t bytes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t download_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t interrupt;
static atomic_int is_cancelled;
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
    READ_STATE();
    for (int chunk = 0; chunk < CHUNKS && !atomic_load(&is_cancelled); chunk++) {
        write_chunk(self, chunk);
#ifdef FIXED
        pthread_mutex_lock(&download_lock);
#endif
        offsets[self] += CHUNK_SIZE; /* guilty: advance */
        AT_NUMBER("advanced", self);
        AT_NUMBER("counting", self);
        pthread_mutex_lock(&bytes_lock);
        bytes_written += CHUNK_SIZE; /* guilty: count */
        if (bytes_written == INTERRUPTED_AT)
            sem_post(&interrupt);
        pthread_mutex_unlock(&bytes_lock);
#ifdef FIXED
        pthread_mutex_unlock(&download_lock);
#endif
    }
    AT_NUMBER("stopped", self);
    return NULL;
}

static void *save_log(void *unused)
{
    (void)unused;
    sem_wait(&interrupt);
    AT("cancelling");
    atomic_store(&is_cancelled, 1);
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
    sem_init(&interrupt, 0, 0);
    WRITE_STATE();
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
    printf("saved where to go on\n");
    return 0;
}
