/* A block compressor: a reader fills a queue of blocks, workers find repetitions and code the rest with adaptive
 * probabilities, a writer takes the blocks in order. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BLOCKS
#define BLOCKS 64
#endif

enum { WORKERS = 4, BLOCK = 128 << 10, QUEUE = 8, HASHES = 1 << 14, NEAREST = 8, LONGEST = 255 };

struct block {
    unsigned char *input, *output;
    size_t size;
    int number, done;
};

static struct block *queue[QUEUE], *blocks[BLOCKS];
static int queued, taken, closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void fill(unsigned char *input, unsigned number)
{
    static const char *const words[] = { "thread ", "lock ", "the ", "of ", "memory ", "a ", "race\n", "order, " };
    unsigned state = number * 2654435761u + 1;
    for (size_t at = 0; at < BLOCK;) {
        state = state * 1103515245u + 12345;
        const char *word = words[state >> 29];
        char odd[12];
        if ((state >> 20 & 7) == 0) {
            snprintf(odd, sizeof odd, "%u ", state >> 8 & 0xffff);
            word = odd;
        }
        size_t length = strlen(word);
        if (length > BLOCK - at)
            length = BLOCK - at;
        memcpy(input + at, word, length);
        at += length;
    }
}

struct coder {
    unsigned low, range;
    unsigned char *next;
    unsigned short literal[256], length[256], match;
};

static void code(struct coder *coder, unsigned short *probability, int bit)
{
    unsigned bound = (coder->range >> 12) * *probability;
    if (bit) {
        coder->low += bound;
        coder->range -= bound;
        *probability -= *probability >> 5;
    } else {
        coder->range = bound;
        *probability += (4096 - *probability) >> 5;
    }
    while (coder->range < 1 << 24) {
        *coder->next++ = coder->low >> 24;
        coder->low <<= 8;
        coder->range <<= 8;
    }
}

static void code_byte(struct coder *coder, unsigned short *tree, unsigned char byte)
{
    unsigned node = 1;
    for (int bit = 7; bit >= 0; bit--) {
        int value = byte >> bit & 1;
        code(coder, &tree[node], value);
        node = node << 1 | value;
    }
}

static unsigned hash(const unsigned char *at)
{
    return (at[0] | at[1] << 8 | (unsigned)at[2] << 16) * 506832829u >> 18;
}

static void compress(struct block *block)
{
    int *heads = malloc(HASHES * sizeof *heads), *before = malloc(BLOCK * sizeof *before);
    struct coder *coder = malloc(sizeof *coder);
    for (int i = 0; i < HASHES; i++)
        heads[i] = -1;
    for (int i = 0; i < 256; i++)
        coder->literal[i] = coder->length[i] = 2048;
    coder->match = 2048;
    coder->low = 0;
    coder->range = ~0u;
    coder->next = block->output;
    const unsigned char *input = block->input;
    for (int at = 0; at < BLOCK;) {
        int best = 0, from = 0;
        if (at + 3 <= BLOCK) {
            int candidate = heads[hash(input + at)];
            for (int tried = 0; tried < NEAREST && candidate >= 0; tried++, candidate = before[candidate]) {
                int length = 0;
                while (length < LONGEST && at + length < BLOCK && input[candidate + length] == input[at + length])
                    length++;
                if (length > best)
                    best = length, from = candidate;
            }
        }
        int step = best > 3 ? best : 1;
        code(coder, &coder->match, best > 3);
        if (best > 3) {
            code_byte(coder, coder->length, best);
            code_byte(coder, coder->length, at - from);
            code_byte(coder, coder->length, (at - from) >> 8);
        } else {
            code_byte(coder, coder->literal, input[at]);
        }
        for (int end = at + step; at < end; at++)
            if (at + 3 <= BLOCK) {
                unsigned key = hash(input + at);
                before[at] = heads[key];
                heads[key] = at;
            }
    }
    block->size = coder->next - block->output;
    free(coder);
    free(before);
    free(heads);
}

static void *work(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (taken == queued && !closed)
            pthread_cond_wait(&changed, &lock);
        if (taken == queued) {
            pthread_mutex_unlock(&lock);
            return unused;
        }
        struct block *block = queue[taken++ % QUEUE];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        compress(block);
        pthread_mutex_lock(&lock);
        block->done = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
}

static void *read_blocks(void *unused)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = calloc(1, sizeof *block);
        block->input = malloc(BLOCK);
        block->output = malloc(2 * BLOCK);
        block->number = i;
        fill(block->input, i);
        pthread_mutex_lock(&lock);
        while (queued - taken == QUEUE)
            pthread_cond_wait(&changed, &lock);
        blocks[i] = queue[queued++ % QUEUE] = block;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t reader, workers[WORKERS];
    pthread_create(&reader, NULL, read_blocks, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    unsigned long total = 0, sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&lock);
        while (!blocks[i] || !blocks[i]->done)
            pthread_cond_wait(&changed, &lock);
        struct block *block = blocks[i];
        pthread_mutex_unlock(&lock);
        total += block->size;
        for (size_t at = 0; at < block->size; at++)
            sum = sum * 31 + block->output[at];
        free(block->input);
        free(block->output);
        free(block);
    }
    pthread_join(reader, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    printf("%lu bytes, %lx\n", total, sum);
    return 0;
}
