// pbzip2, decompressing one large file: main frees the queue's "not full" condition while a consumer still signals it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("delivered 19", "tearing-down", "torn-down", "signalling 19");

#define BLOCKS 20
#define SLOTS 6

struct queue {
    int blocks[SLOTS];
    long head, tail;
    pthread_mutex_t mut;
    pthread_cond_t *volatile not_full;
    pthread_cond_t not_empty;
};

static struct queue fifo = {.mut = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};
static unsigned output_sum;
static int n_written;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t output_ready = PTHREAD_COND_INITIALIZER;
static char progress[64];

static unsigned decompress(int block)
{
    unsigned sum = block;
    for (int byte = 0; byte < 500; byte++)
        sum = sum * 69069u + 1;
    return sum;
}

static void deliver(unsigned sum)
{
    pthread_mutex_lock(&output_lock);
    output_sum ^= sum;
    n_written++;
    pthread_cond_signal(&output_ready);
    pthread_mutex_unlock(&output_lock);
}

static int take_block(void)
{
    pthread_mutex_lock(&fifo.mut);
    while (fifo.head == fifo.tail)
        pthread_cond_wait(&fifo.not_empty, &fifo.mut);
    int block = fifo.blocks[fifo.head++ % SLOTS];
    pthread_mutex_unlock(&fifo.mut);
    return block;
}

static void *consumer(void *unused)
{
    (void)unused;
    for (int count = 0; count < BLOCKS; count++) {
        int block = take_block();
        deliver(decompress(block));
        AT_NUMBER("delivered", block);
        snprintf(progress, sizeof progress, "%d of %d", count + 1, BLOCKS);
        AT_NUMBER("signalling", block);
        pthread_cond_signal(fifo.not_full); /* guilty: signal */
    }
    return NULL;
}

static void *write_output(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&output_lock);
    while (n_written < BLOCKS)
        pthread_cond_wait(&output_ready, &output_lock);
    pthread_mutex_unlock(&output_lock);
    return NULL;
}

static void produce(void)
{
    for (int block = 0; block < BLOCKS; block++) {
        pthread_mutex_lock(&fifo.mut);
        while (fifo.tail - fifo.head == SLOTS)
            pthread_cond_wait(fifo.not_full, &fifo.mut);
        fifo.blocks[fifo.tail++ % SLOTS] = block;
        pthread_cond_signal(&fifo.not_empty);
        pthread_mutex_unlock(&fifo.mut);
    }
}

static void tear_down(void)
{
    AT("tearing-down");
    pthread_cond_t *condition = fifo.not_full;
    fifo.not_full = NULL; /* guilty: tear-down */
    free(condition);
    AT("torn-down");
}

int main(void)
{
    pthread_t reader, writer;
    fifo.not_full = malloc(sizeof *fifo.not_full);
    pthread_cond_init(fifo.not_full, NULL);
    pthread_create(&reader, NULL, consumer, NULL);
    pthread_create(&writer, NULL, write_output, NULL);
    produce();
    pthread_join(writer, NULL);
#ifdef FIXED
    pthread_join(reader, NULL);
#endif
    tear_down();
#ifndef FIXED
    pthread_join(reader, NULL);
#endif
    printf("%s, sum %08x\n", progress, output_sum);
    return 0;
}
