// Mozilla: threads add to a browsing statistic without a lock; it is printed once, at the end, and can be too low.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("read 0", "adding 1", "added 1", "writing 0");

#define THREADS 3
#define PAGES 20

static volatile long total_offset;
static pthread_mutex_t offset_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned layouts[THREADS];

static void add_offset(long offset, int thread)
{
    char url[32];
#ifdef FIXED
    pthread_mutex_lock(&offset_lock);
#endif
    AT_NUMBER("adding", thread);
    long total = total_offset; /* guilty: read */
    AT_NUMBER("read", thread);
    snprintf(url, sizeof url, "http://page%ld", offset);
    AT_NUMBER("writing", thread);
    total_offset = total + offset; /* guilty: write */
    AT_NUMBER("added", thread);
#ifdef FIXED
    pthread_mutex_unlock(&offset_lock);
#endif
    (void)thread;
}

static void *browse(void *argument)
{
    int thread = *(int *)argument;
    for (int page = 1; page <= PAGES; page++) {
        for (int step = 0; step < 300; step++)
            layouts[thread] = layouts[thread] * 31 + page;
        add_offset(page, thread);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    (void)offset_lock;
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, browse, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("offset %ld\n", total_offset);
    return 0;
}
