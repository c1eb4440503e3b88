// Mozilla: shutdown changes the sequence word before the run loop has begun to wait for the change; it waits for ever.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("initialised", "signalling", "signalled", "waiting");

static int sequence;
static int n_events;
static unsigned state_at_close;
static pthread_mutex_t monitor = PTHREAD_MUTEX_INITIALIZER;

static int read_sequence(void)
{
    pthread_mutex_lock(&monitor);
    int value = sequence; /* guilty: read */
    pthread_mutex_unlock(&monitor);
    return value;
}

static void initialise(void)
{
    pthread_mutex_lock(&monitor);
    sequence = 0; /* guilty: initialise */
    pthread_mutex_unlock(&monitor);
}

static void wait_for_change(int seen)
{
    while (read_sequence() == seen)
        sched_yield();
}

static unsigned prepare(int steps)
{
    unsigned state = 1;
    for (int step = 0; step < steps; step++)
        state = state * 22695477u + 1;
    return state;
}

static void *run(void *unused)
{
    (void)unused;
#ifndef FIXED
    initialise();
#endif
    AT("initialised");
    n_events += prepare(50) != 0;
    AT("waiting");
#ifdef FIXED
    wait_for_change(0);
#else
    wait_for_change(read_sequence());
#endif
    return NULL;
}

static void *shut_down(void *unused)
{
    (void)unused;
    state_at_close = prepare(30000);
    AT("signalling");
    pthread_mutex_lock(&monitor);
    sequence++; /* guilty: signal */
    pthread_mutex_unlock(&monitor);
    AT("signalled");
    return NULL;
}

int main(void)
{
    pthread_t runner, closer;
#ifdef FIXED
    initialise();
#endif
    pthread_create(&runner, NULL, run, NULL);
    pthread_create(&closer, NULL, shut_down, NULL);
    pthread_join(runner, NULL);
    pthread_join(closer, NULL);
    printf("%d event, sequence %d\n", n_events, sequence);
    return 0;
}
