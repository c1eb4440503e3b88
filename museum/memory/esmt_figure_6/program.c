// The second worked example of execution suppression for threads: as the first, with a wrong constant in front. The races on x and z
// are there, but store what was there before. The order of the accesses is that of the example.
//@ cc: -DSHOW
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "separate.h"
#include "show.h"

SHOW_ORDER("looked 0", "looking 1", "stored 1", "storing 0", "stored 0", "going-on 1");

#define ENTRIES 16
#define RIGHT 2

struct entry {
    int field;
};

static struct entry **table; // a hundred thousand cells, of which the even ones among the first are filled
static volatile int x, y, z;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int results[2];

// Nothing for an even number.
SEPARATE static int growth(int value)
{
    int sum = 0;
    for (int step = 0; step < 64; step++)
        sum += (value & 1) * step;
    return sum;
}

SEPARATE static void set_x(void)
{
#ifdef FIXED
    z = RIGHT;
#else
    z = RIGHT * 1000; /* mark: set-z */
#endif
    x = 2 * z; /* mark: double-z */
}

static void grow_x(int thread)
{
    AT_NUMBER("looking", thread);
    int a = growth(x);
    AT_NUMBER("looked", thread);
    AT_NUMBER("storing", thread);
    x = x + a; /* mark: grow-x */
    AT_NUMBER("stored", thread);
    AT_NUMBER("going-on", thread);
}

static void *work(void *argument)
{
    int thread = *(int *)argument;
    set_x();
    grow_x(thread);
    pthread_mutex_lock(&lock);
    y = x;                   /* mark: pick */
    int b = table[y]->field; /* mark: fail */
    pthread_mutex_unlock(&lock);
    int c = table[x]->field; /* mark: pick-again */
    assert(z == RIGHT);      /* mark: check */
    results[thread] = b > 0 && c > 0;
    return NULL;
}

static void fill_table(void)
{
    table = calloc(100000, sizeof *table);
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
