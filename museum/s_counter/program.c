// Workers count what they have done in one shared counter: read into a local, add one, write back.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("read 0", "writing 1", "written 1", "writing 0");

#define WORKERS 3
#define ROUNDS 40

static volatile int counter;
static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned results[WORKERS];
static char progress[WORKERS][32];

static void count_one(int worker)
{
#ifdef FIXED
    pthread_mutex_lock(&counter_lock);
#endif
    int value = counter; /* guilty: read */
    AT_NUMBER("read", worker);
    snprintf(progress[worker], sizeof progress[worker], "%d done", ++value);
    AT_NUMBER("writing", worker);
    counter = value; /* guilty: write */
    AT_NUMBER("written", worker);
#ifdef FIXED
    pthread_mutex_unlock(&counter_lock);
#endif
}

static unsigned work(int worker, int round)
{
    unsigned value = worker + 17 * round;
    for (int step = 0; step < 300; step++)
        value ^= value << 13, value ^= value >> 17, value ^= value << 5;
    return value;
}

static void *run(void *argument)
{
    int worker = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        results[worker] ^= work(worker, round);
        count_one(worker);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    (void)counter_lock;
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, run, &numbers[number]);
    }
    for (int number = 0; number < WORKERS; number++)
        pthread_join(threads[number], NULL);
    assert(counter == WORKERS * ROUNDS);
    printf("counter %d\n", counter);
    return 0;
}
