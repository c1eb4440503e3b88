// A loop moves a point, one locked coordinate after the other; a reader must find both from the same iteration.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("read-x", "moving", "moved", "reading-y");

#define MOVES 40

static long x, y;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t point_lock = PTHREAD_MUTEX_INITIALIZER;
static long trail[MOVES];

static void set(long *coordinate, long value)
{
    pthread_mutex_lock(&lock);
    *coordinate = value;
    pthread_mutex_unlock(&lock);
}

static long get(const long *coordinate)
{
    pthread_mutex_lock(&lock);
    long value = *coordinate;
    pthread_mutex_unlock(&lock);
    return value;
}

static void *move(void *unused)
{
    (void)unused;
    for (int number = 1; number <= MOVES; number++) {
        for (int step = 0; step < 20; step++)
            trail[number - 1] += step;
        AT("moving");
#ifdef FIXED
        pthread_mutex_lock(&point_lock);
#endif
        set(&x, number); /* guilty: write-x */
        set(&y, number); /* guilty: write-y */
#ifdef FIXED
        pthread_mutex_unlock(&point_lock);
#endif
        AT("moved");
    }
    return NULL;
}

static void *look(void *difference)
{
#ifdef FIXED
    pthread_mutex_lock(&point_lock);
#endif
    long seen_x = get(&x); /* guilty: read-x */
    AT("read-x");
    AT("reading-y");
    long seen_y = get(&y); /* guilty: read-y */
#ifdef FIXED
    pthread_mutex_unlock(&point_lock);
#endif
    *(long *)difference = seen_x - seen_y;
    return NULL;
}

int main(void)
{
    pthread_t mover, looker;
    long difference = 0;
    (void)point_lock;
    pthread_create(&mover, NULL, move, NULL);
    pthread_create(&looker, NULL, look, &difference);
    pthread_join(mover, NULL);
    pthread_join(looker, NULL);
    if (difference) {
        printf("x and y differ by %ld\n", difference);
        return 1;
    }
    printf("at %ld, %ld\n", x, y);
    return 0;
}
