// memcached: a worker formats a statistics reply from counters that another worker is changing; the reply does not add up.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("gets-read", "serving", "served", "hits-reading");

#define REQUESTS 50

static struct {
    volatile long gets, hits, misses;
    pthread_mutex_t lock;
} stats = {0, 0, 0, PTHREAD_MUTEX_INITIALIZER};

static int in_cache(int key)
{
    unsigned hash = key;
    for (int step = 0; step < 20; step++)
        hash = hash * 16777619u ^ step;
    return hash & 1;
}

static void *serve(void *unused)
{
    (void)unused;
    for (int request = 0; request < REQUESTS; request++) {
        int hit = in_cache(request);
        AT("serving");
        pthread_mutex_lock(&stats.lock);
        stats.gets++; /* guilty: count */
        if (hit)
            stats.hits++;
        else
            stats.misses++;
        pthread_mutex_unlock(&stats.lock);
    }
    AT("served");
    return NULL;
}

static void *reply(void *text)
{
    char key[24];
#ifdef FIXED
    pthread_mutex_lock(&stats.lock);
#endif
    long gets = stats.gets; /* guilty: read-gets */
    AT("gets-read");
    snprintf(key, sizeof key, "gets %ld", gets);
    AT("hits-reading");
    long hits = stats.hits, misses = stats.misses; /* guilty: read-hits */
#ifdef FIXED
    pthread_mutex_unlock(&stats.lock);
#endif
    snprintf(text, 64, "%s", hits + misses == gets ? "STAT consistent" : "STAT inconsistent");
    return NULL;
}

int main(void)
{
    pthread_t worker, replier;
    char text[64];
    pthread_create(&worker, NULL, serve, NULL);
    pthread_create(&replier, NULL, reply, text);
    pthread_join(worker, NULL);
    pthread_join(replier, NULL);
    printf("%s\nEND %ld\n", text, stats.gets);
    return 0;
}
