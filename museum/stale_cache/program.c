// A cache is filled from a source while the source is replaced; each locks what it touches, and neither sees the other.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("source-read", "replacing", "cache-read", "cache-filling");

#define LINES 24

static int source_version = 1;
static int cached_version; // 0: nothing cached
static int n_invalidated;
static long rendered;
static pthread_mutex_t source_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t document_lock = PTHREAD_MUTEX_INITIALIZER;

static void begin_change(void)
{
#ifdef FIXED
    pthread_mutex_lock(&document_lock);
#endif
}

static void end_change(void)
{
#ifdef FIXED
    pthread_mutex_unlock(&document_lock);
#endif
}

static void *fill_cache(void *unused)
{
    (void)unused;
    begin_change();
    pthread_mutex_lock(&source_lock);
    int version = source_version; /* guilty: read-source */
    pthread_mutex_unlock(&source_lock);
    AT("source-read");
    for (int line = 0; line < LINES; line++)
        rendered += version;
    AT("cache-filling");
    pthread_mutex_lock(&cache_lock);
    cached_version = version; /* guilty: fill-cache */
    pthread_mutex_unlock(&cache_lock);
    end_change();
    return NULL;
}

static void *replace_source(void *unused)
{
    (void)unused;
    AT("replacing");
    begin_change();
    pthread_mutex_lock(&source_lock);
    source_version = 2; /* guilty: write-source */
    pthread_mutex_unlock(&source_lock);
    pthread_mutex_lock(&cache_lock);
    if (cached_version) { /* guilty: read-cache */
        n_invalidated++;
        cached_version = 0;
    }
    pthread_mutex_unlock(&cache_lock);
    AT("cache-read");
    end_change();
    return NULL;
}

int main(void)
{
    pthread_t filler, replacer;
    (void)document_lock;
    pthread_create(&filler, NULL, fill_cache, NULL);
    pthread_create(&replacer, NULL, replace_source, NULL);
    pthread_join(filler, NULL);
    pthread_join(replacer, NULL);
    if (cached_version && cached_version != source_version) {
        printf("the cache holds version %d of %d\n", cached_version, source_version);
        return 1;
    }
    puts("the cache is empty or fresh");
    return 0;
}
