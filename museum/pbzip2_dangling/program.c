// pbzip2: main deletes a file's queue through its own pointer while a consumer still looks at it through another.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("finished 0", "deleting", "reused", "tidying 0");

#define BLOCKS 16
#define CONSUMERS 2

struct queue {
    int *slots;
    int next, n_blocks;
    long n_taken[CONSUMERS];
    pthread_mutex_t mut;
};

struct crc_table {
    unsigned words[sizeof(struct queue) / sizeof(unsigned)];
};

struct consumer {
    int number;
    struct queue *fifo;
    int slot_left;
};

static int n_finished;
static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finish = PTHREAD_COND_INITIALIZER;

static struct queue *queue_init(void)
{
    struct queue *queue = calloc(1, sizeof *queue);
    queue->slots = malloc(BLOCKS * sizeof *queue->slots);
    for (int block = 0; block < BLOCKS; block++)
        queue->slots[block] = block * block;
    queue->n_blocks = BLOCKS;
    pthread_mutex_init(&queue->mut, NULL);
    return queue;
}

__attribute__((noinline)) static void queue_delete(struct queue *queue)
{
    free(queue->slots);
    free(queue); /* guilty: free */
}

static int take_block(struct queue *fifo, int consumer)
{
    pthread_mutex_lock(&fifo->mut);
    int block = fifo->next < fifo->n_blocks ? fifo->slots[fifo->next++] : -1;
    fifo->n_taken[consumer] += block >= 0;
    pthread_mutex_unlock(&fifo->mut);
    return block;
}

static void tell_finished(int consumer)
{
    (void)consumer;
    pthread_mutex_lock(&finish_lock);
    n_finished++;
    pthread_cond_signal(&finish);
    pthread_mutex_unlock(&finish_lock);
}

static void *consume(void *argument)
{
    struct consumer *self = argument;
    unsigned sum = 0;
    for (int block; (block = take_block(self->fifo, self->number)) >= 0;)
        for (int byte = 0; byte < 200; byte++)
            sum = sum * 31 + block;
#ifdef FIXED
    self->slot_left = self->fifo->slots[0];
#endif
    tell_finished(self->number);
    AT_NUMBER("finished", self->number);
#ifndef FIXED
    for (int byte = 0; byte < 8; byte++)
        sum ^= sum >> byte;
    AT_NUMBER("tidying", self->number);
    self->slot_left = self->fifo->slots[0] + (sum == 0); /* guilty: use */
#endif
    return NULL;
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&finish_lock);
    while (n_finished < CONSUMERS)
        pthread_cond_wait(&finish, &finish_lock);
    pthread_mutex_unlock(&finish_lock);
}

int main(void)
{
    pthread_t threads[CONSUMERS];
    struct consumer consumers[CONSUMERS];
    struct queue *fifo = queue_init();
    for (int number = 0; number < CONSUMERS; number++) {
        consumers[number] = (struct consumer){number, fifo, -1};
        pthread_create(&threads[number], NULL, consume, &consumers[number]);
    }
    wait_for_all();
    long n_taken = fifo->n_taken[0] + fifo->n_taken[1];
    AT("deleting");
    queue_delete(fifo);
    struct crc_table *crc = calloc(1, sizeof *crc); // the next file's table gets the queue's memory
    AT("reused");
    for (int number = 0; number < CONSUMERS; number++)
        pthread_join(threads[number], NULL);
    printf("%ld blocks, crc %u\n", n_taken, crc->words[0]);
    free(crc);
    return 0;
}
