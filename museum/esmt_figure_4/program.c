// The worked example of execution suppression for threads: a race on x that fails through y, and later through x itself.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("looked 0", "looking 1", "stored 1", "storing 0", "stored 0", "going-on 1");

#define ENTRIES 16

struct entry {
    int field;
};

static struct entry **table;
static volatile int x = 1;
static volatile int y;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int results[2];

// As much as was there before: sequentially x is doubled, so it is always even.
__attribute__((noinline)) static int growth(int value)
{
    int sum = 0;
    for (int step = 0; step < 16 * value; step++)
        sum += step % 16 == 0;
    return sum;
}

static void grow_x(int thread)
{
    (void)thread;
    AT_NUMBER("looking", thread);
    int a = growth(x); /* guilty: look */
    AT_NUMBER("looked", thread);
    AT_NUMBER("storing", thread);
    x = x + a; /* guilty: store */
    AT_NUMBER("stored", thread);
    AT_NUMBER("going-on", thread);
}

static void *work(void *argument)
{
    int thread = *(int *)argument;
#ifdef FIXED
    pthread_mutex_lock(&lock);
    grow_x(thread);
#else
    grow_x(thread);
    pthread_mutex_lock(&lock);
#endif
    y = x;                   /* guilty: pick */
    int b = table[y]->field; /* guilty: fail */
#ifdef FIXED
    int c = table[x]->field;
    pthread_mutex_unlock(&lock);
#else
    pthread_mutex_unlock(&lock);
    int c = table[x]->field; /* guilty: pick-again */
#endif
    results[thread] = b > 0 && c > 0;
    return NULL;
}

static void fill_table(void)
{
    table = calloc(ENTRIES, sizeof *table);
    for (int number = 0; number < ENTRIES; number += 2) {
        table[number] = malloc(sizeof **table);
        table[number]->field = number + 100;
    }
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    fill_table();
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, work, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("x %d, results %d %d\n", x, results[0], results[1]);
    return 0;
}
