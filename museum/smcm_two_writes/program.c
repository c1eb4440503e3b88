// Two threads write x and y; main, which does not wait, finds y written and x not.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("x-read", "writing", "written", "y-reading");

static volatile int x, y;
static unsigned work_done[2];
static pthread_mutex_t xy_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned work(unsigned seed)
{
    for (int step = 0; step < 100; step++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static void *write_both(void *unused)
{
    (void)unused;
    work_done[0] = work(1);
    AT("writing");
#ifdef FIXED
    pthread_mutex_lock(&xy_lock);
#endif
    x = 2; /* guilty: write-x */
    y = 1; /* guilty: write-y */
#ifdef FIXED
    pthread_mutex_unlock(&xy_lock);
#endif
    AT("written");
    return NULL;
}

static void *write_one(void *unused)
{
    (void)unused;
    work_done[1] = work(2);
#ifdef FIXED
    pthread_mutex_lock(&xy_lock);
#endif
    AT("written");
    x = 2; /* guilty: write-x */
#ifdef FIXED
    pthread_mutex_unlock(&xy_lock);
#endif
    return NULL;
}

static void look(void)
{
    char line[32];
#ifdef FIXED
    pthread_mutex_lock(&xy_lock);
#endif
    int seen_x = x; /* guilty: read-x */
    AT("x-read");
    snprintf(line, sizeof line, "x %d", seen_x);
    AT("y-reading");
    int seen_y = y; /* guilty: read-y */
#ifdef FIXED
    pthread_mutex_unlock(&xy_lock);
#endif
    assert(!(seen_x == 0 && seen_y == 1));
}

int main(void)
{
    pthread_t first, second;
    (void)xy_lock;
    pthread_create(&first, NULL, write_both, NULL);
    pthread_create(&second, NULL, write_one, NULL);
    look();
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    printf("x %d, y %d, %s\n", x, y, work_done[0] && work_done[1] ? "done" : "not done");
    return 0;
}
