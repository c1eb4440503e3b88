// Two threads store the level of detail that each likes best, without a lock; every value is one that a reader accepts.
#include <pthread.h>
#include <stdio.h>

#define FRAMES 40

static volatile int detail = 2;
static long n_drawn;

static void *prefer(void *argument)
{
    for (int number = 0; number < 20; number++)
        detail = *(int *)argument; /* guilty: store */
    return NULL;
}

static void *draw(void *unused)
{
    (void)unused;
    for (int frame = 0; frame < FRAMES; frame++) {
        int level = detail; /* guilty: read */
        for (int step = 0; step < level; step++)
            n_drawn += step == 0;
    }
    return NULL;
}

int main(void)
{
    pthread_t gamer, saver, drawer;
    int high = 4, low = 1;
    pthread_create(&drawer, NULL, draw, NULL);
    pthread_create(&gamer, NULL, prefer, &high);
    pthread_create(&saver, NULL, prefer, &low);
    pthread_join(drawer, NULL);
    pthread_join(gamer, NULL);
    pthread_join(saver, NULL);
    printf("%ld frames\n", n_drawn);
    return 0;
}
