// A reader waits for a condition once, and believes that it holds when the wait is over.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("read", "filling");

#define ENTRIES 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int table[ENTRIES], has_come, is_filled, sum;

static void *read_table(void *unused)
{
    pthread_mutex_lock(&lock);
    has_come = 1;
    pthread_cond_signal(&came);
#ifdef FIXED
    while (!is_filled)
        pthread_cond_wait(&changed, &lock);
#else
    if (!is_filled)
        pthread_cond_wait(&changed, &lock); /* guilty: wait */
#endif
    for (int entry = 0; entry < ENTRIES; entry++)
        sum += table[entry]; /* guilty: read */
    AT("read");
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t reader;
    if (pthread_create(&reader, NULL, read_table, NULL) != 0)
        return 2;
    pthread_mutex_lock(&lock);
    while (!has_come)
        pthread_cond_wait(&came, &lock);
#ifdef SHOW
    /* Nobody promises that a wait ends only by a signal that is meant. */
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    AT("filling");
    pthread_mutex_lock(&lock);
#endif
    for (int entry = 0; entry < ENTRIES; entry++)
        table[entry] = entry;
    is_filled = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(reader, NULL);
    if (sum != ENTRIES * (ENTRIES - 1) / 2)
        return 1;
    printf("sum %d\n", sum);
    return 0;
}
