// A thread reads a limit, and reads it twice more for a computation that trusts the first reading.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("read", "lowering", "lowered", "reading-again");

#define ROUNDS 30

static volatile int limit = 64;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *compute(void *unused)
{
    char line[24];
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
#ifdef FIXED
        pthread_mutex_lock(&limit_lock);
#endif
        int first = limit; /* guilty: first */
        AT("read");
        snprintf(line, sizeof line, "limit %d", first);
        AT("reading-again");
        sum += limit > 0;       /* guilty: second */
        assert(first <= limit); /* guilty: third */
#ifdef FIXED
        pthread_mutex_unlock(&limit_lock);
#endif
    }
    return NULL;
}

static void *lower(void *unused)
{
    (void)unused;
    for (int next = 63; next >= 60; next--) {
        AT("lowering");
#ifdef FIXED
        pthread_mutex_lock(&limit_lock);
#endif
        limit = next; /* guilty: lower */
#ifdef FIXED
        pthread_mutex_unlock(&limit_lock);
#endif
        AT("lowered");
    }
    return NULL;
}

int main(void)
{
    pthread_t computer, lowerer;
    (void)limit_lock;
    pthread_create(&computer, NULL, compute, NULL);
    pthread_create(&lowerer, NULL, lower, NULL);
    pthread_join(computer, NULL);
    pthread_join(lowerer, NULL);
    printf("%ld rounds, limit %d\n", sum, limit);
    return 0;
}
