// SPLASH-2 Fmm: a time stamp is negative for a moment and overwritten soon; whoever reads it then breaks a rule.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("begun", "reading", "finishing");

#define BOXES 12

struct box {
    volatile long time_stamp;
    double mass;
};

static struct box boxes[BOXES];
static pthread_mutex_t stamp_lock = PTHREAD_MUTEX_INITIALIZER;
static long n_interactions;

static double interact(const struct box *box)
{
    double mass = box->mass;
    for (int step = 0; step < 20; step++)
        mass = mass * 0.9 + 0.1;
    return mass;
}

static void *construct(void *unused)
{
    (void)unused;
    for (int number = 0; number < BOXES; number++) {
#ifdef FIXED
        pthread_mutex_lock(&stamp_lock);
#endif
        boxes[number].time_stamp = -number - 1; /* guilty: begin */
        AT("begun");
        boxes[number].mass = interact(&boxes[number]);
        AT("finishing");
        boxes[number].time_stamp = number + 1; /* guilty: finish */
#ifdef FIXED
        pthread_mutex_unlock(&stamp_lock);
#endif
    }
    return NULL;
}

static void *traverse(void *unused)
{
    (void)unused;
    AT("reading");
    for (int number = 0; number < BOXES; number++) {
#ifdef FIXED
        pthread_mutex_lock(&stamp_lock);
#endif
        long stamp = boxes[number].time_stamp; /* guilty: read */
#ifdef FIXED
        pthread_mutex_unlock(&stamp_lock);
#endif
        for (int step = 0; step < 25; step++)
            n_interactions += step == number;
        assert(stamp >= 0);
    }
    return NULL;
}

int main(void)
{
    pthread_t constructor, traverser;
    (void)stamp_lock;
    pthread_create(&constructor, NULL, construct, NULL);
    pthread_create(&traverser, NULL, traverse, NULL);
    pthread_join(constructor, NULL);
    pthread_join(traverser, NULL);
    printf("%ld interactions\n", n_interactions);
    return 0;
}
