// pbzip2 0.9.4: main waits for the output thread only, then tears the queue down while a consumer still needs its mutex.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("left 1", "looking 0", "ended 0", "tearing-down", "torn-down", "unlocking 0", "left 0", "leaving");

#define BLOCKS 24
#define SLOTS 8
#define CONSUMERS 2

struct queue {
    int blocks[SLOTS];
    long head, tail;
    int full, empty;
    pthread_mutex_t *mut;
    pthread_cond_t *not_full, *not_empty;
};

static struct queue *fifo;
static int producer_done;
static unsigned outputs[BLOCKS];
static int n_ready, n_streams_ended;
static char summaries[CONSUMERS][32];
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t output_ready = PTHREAD_COND_INITIALIZER;

static struct queue *queue_init(void)
{
    struct queue *queue = calloc(1, sizeof *queue);
    queue->empty = 1;
    queue->mut = malloc(sizeof *queue->mut);
    queue->not_full = malloc(sizeof *queue->not_full);
    queue->not_empty = malloc(sizeof *queue->not_empty);
    pthread_mutex_init(queue->mut, NULL);
    pthread_cond_init(queue->not_full, NULL);
    pthread_cond_init(queue->not_empty, NULL);
    return queue;
}

__attribute__((noinline)) static void queue_delete(struct queue *queue)
{
    pthread_mutex_t *mut = queue->mut;
    queue->mut = NULL; /* guilty: tear-down */
    free(mut);
    free(queue->not_full);
    free(queue->not_empty);
    queue->not_full = queue->not_empty = NULL;
}

static void queue_add(struct queue *queue, int block)
{
    queue->blocks[queue->tail++ % SLOTS] = block;
    queue->full = queue->tail - queue->head == SLOTS;
    queue->empty = 0;
}

static int queue_take(struct queue *queue)
{
    int block = queue->blocks[queue->head++ % SLOTS];
    queue->empty = queue->head == queue->tail;
    queue->full = 0;
    return block;
}

static unsigned compress(int block)
{
    unsigned sum = block + 1;
    for (int byte = 0; byte < 1000; byte++)
        sum = sum * 1103515245u + 12345u;
    return sum | 1;
}

static void put_output(int block, unsigned compressed)
{
    pthread_mutex_lock(&output_lock);
    outputs[block] = compressed;
    n_ready++;
    pthread_cond_signal(&output_ready);
    pthread_mutex_unlock(&output_lock);
}

static void put_end_of_stream(void)
{
    pthread_mutex_lock(&output_lock);
    n_streams_ended++;
    pthread_cond_signal(&output_ready);
    pthread_mutex_unlock(&output_lock);
}

static void *consumer(void *argument)
{
    int number = *(int *)argument;
    int n_taken = 0;
    for (;;) {
        AT_NUMBER("looking", number);
        pthread_mutex_lock(fifo->mut);
        while (fifo->empty && !producer_done)
            pthread_cond_wait(fifo->not_empty, fifo->mut);
        if (fifo->empty) {
            put_end_of_stream();
            AT_NUMBER("ended", number);
            AT_NUMBER("unlocking", number);
            snprintf(summaries[number], sizeof summaries[number], "consumer %d: %d blocks", number, n_taken);
            pthread_mutex_unlock(fifo->mut); /* guilty: unlock */
            AT_NUMBER("left", number);
            return NULL;
        }
        int block = queue_take(fifo);
        n_taken++;
        pthread_cond_signal(fifo->not_full);
        pthread_mutex_unlock(fifo->mut);
        put_output(block, compress(block));
    }
}

static void *write_output(void *total)
{
    pthread_mutex_lock(&output_lock);
    while (n_ready < BLOCKS || n_streams_ended < CONSUMERS)
        pthread_cond_wait(&output_ready, &output_lock);
    pthread_mutex_unlock(&output_lock);
    for (int block = 0; block < BLOCKS; block++)
        *(unsigned *)total ^= outputs[block];
    return NULL;
}

static void produce(void)
{
    for (int block = 0; block < BLOCKS; block++) {
        pthread_mutex_lock(fifo->mut);
        while (fifo->full)
            pthread_cond_wait(fifo->not_full, fifo->mut);
        queue_add(fifo, block);
        pthread_cond_signal(fifo->not_empty);
        pthread_mutex_unlock(fifo->mut);
    }
    pthread_mutex_lock(fifo->mut);
    producer_done = 1;
    pthread_cond_broadcast(fifo->not_empty);
    pthread_mutex_unlock(fifo->mut);
}

int main(void)
{
    pthread_t consumers[CONSUMERS], output;
    int numbers[CONSUMERS];
    unsigned total = 0;
    fifo = queue_init();
    for (int number = 0; number < CONSUMERS; number++) {
        numbers[number] = number;
        pthread_create(&consumers[number], NULL, consumer, &numbers[number]);
    }
    pthread_create(&output, NULL, write_output, &total);
    produce();
    pthread_join(output, NULL);
#ifdef FIXED
    for (int number = 0; number < CONSUMERS; number++)
        pthread_join(consumers[number], NULL);
#endif
    AT("tearing-down");
    queue_delete(fifo);
    AT("torn-down");
    printf("%d blocks, sum %08x\n", BLOCKS, total);
    AT("leaving");
    return 0;
}
