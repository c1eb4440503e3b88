// Two writes to one variable that a lock, taken for something else, orders by accident in one of two orders.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("overridden", "defaulting");

static volatile int verbosity;
static int n_started;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t defaults_set = PTHREAD_COND_INITIALIZER;
static int have_defaults;

static void count_start(void)
{
    pthread_mutex_lock(&start_lock);
    n_started++; // nothing to do with the verbosity
    pthread_mutex_unlock(&start_lock);
}

static void *set_defaults(void *unused)
{
    (void)unused;
    AT("defaulting");
    verbosity = 1; /* guilty: default */
    count_start();
    pthread_mutex_lock(&start_lock);
    have_defaults = 1;
    pthread_cond_signal(&defaults_set);
    pthread_mutex_unlock(&start_lock);
    return NULL;
}

static void wait_for_defaults(void)
{
#ifdef FIXED
    pthread_mutex_lock(&start_lock);
    while (!have_defaults)
        pthread_cond_wait(&defaults_set, &start_lock);
    pthread_mutex_unlock(&start_lock);
#endif
}

static void *override(void *unused)
{
    unsigned word = 5;
    (void)unused;
    for (int letter = 0; letter < 10000; letter++) // reads the command line, which takes a while
        word = word * 33 + letter;
    wait_for_defaults();
    count_start();
    verbosity = 2 + (word == 0); /* guilty: override */
    AT("overridden");
    return NULL;
}

int main(void)
{
    pthread_t defaults, overriding;
    pthread_create(&defaults, NULL, set_defaults, NULL);
    pthread_create(&overriding, NULL, override, NULL);
    pthread_join(defaults, NULL);
    pthread_join(overriding, NULL);
    assert(verbosity == 2);
    printf("%d started, verbosity %d\n", n_started, verbosity);
    return 0;
}
