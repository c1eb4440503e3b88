// An event that remembers one signal only: two workers finish before main looks, and one of the two is forgotten.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("set 0", "set 1", "waiting");

#define WORKERS 2

struct event {
    int set;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static struct event finished = {0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
static unsigned results[WORKERS];

static void set_event(struct event *event)
{
    pthread_mutex_lock(&event->lock);
#ifdef FIXED
    event->set++;
#else
    event->set = 1; /* guilty: set */
#endif
    pthread_cond_signal(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static void wait_for_event(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    while (!event->set)
        pthread_cond_wait(&event->changed, &event->lock); /* guilty: wait */
#ifdef FIXED
    event->set--;
#else
    event->set = 0; /* guilty: reset */
#endif
    pthread_mutex_unlock(&event->lock);
}

static void *work(void *argument)
{
    int self = *(int *)argument;
    unsigned state = self + 1;
    for (int step = 0; step < 500 + self * 1500000; step++) // the second one has far more to do
        state = state * 69069u + 1;
    results[self] = state | 1;
    set_event(&finished);
    AT_NUMBER("set", self);
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS];
    int numbers[WORKERS];
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, work, &numbers[number]);
    }
    AT("waiting");
    for (int number = 0; number < WORKERS; number++)
        wait_for_event(&finished);
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
    printf("%s\n", results[0] && results[1] ? "both finished" : "not finished");
    return 0;
}
