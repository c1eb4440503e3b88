// Three philosophers take the left fork and then the right one; all hold one and wait for another.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("left 0", "left 1", "left 2", "right 0", "right 1", "right 2");

#define PHILOSOPHERS 3
#define MEALS 10

static pthread_mutex_t forks[PHILOSOPHERS];
static int meals[PHILOSOPHERS];
static unsigned thoughts[PHILOSOPHERS];

static void think(int self)
{
    for (int step = 0; step < 100; step++)
        thoughts[self] = thoughts[self] * 31 + step;
}

static void eat(int self)
{
    int first = self, second = (self + 1) % PHILOSOPHERS;
#ifdef FIXED
    if (first > second) {
        first = second;
        second = self;
    }
#endif
    pthread_mutex_lock(&forks[first]); /* guilty: left */
    AT_NUMBER("left", self);
    AT_NUMBER("right", self);
    pthread_mutex_lock(&forks[second]); /* guilty: right */
    meals[self]++;
    pthread_mutex_unlock(&forks[second]);
    pthread_mutex_unlock(&forks[first]);
}

static void *dine(void *argument)
{
    int self = *(int *)argument;
    for (int meal = 0; meal < MEALS; meal++) {
        think(self);
        eat(self);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[PHILOSOPHERS];
    int numbers[PHILOSOPHERS];
    for (int number = 0; number < PHILOSOPHERS; number++)
        pthread_mutex_init(&forks[number], NULL);
    for (int number = 0; number < PHILOSOPHERS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, dine, &numbers[number]);
    }
    for (int number = 0; number < PHILOSOPHERS; number++)
        pthread_join(threads[number], NULL);
    printf("%d %d %d meals\n", meals[0], meals[1], meals[2]);
    return 0;
}
