// One thread clears a pointer, a second renews it, a third uses it; barriers put the three into that order.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 10

struct sample {
    int value;
};

static struct sample *shared;
static pthread_barrier_t step_end;
static long sum;

static void *clear(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        free(shared);
        shared = NULL;
        for (int step = 0; step < 3; step++)
            pthread_barrier_wait(&step_end);
    }
    return NULL;
}

static void *renew(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&step_end);
        shared = malloc(sizeof *shared);
        shared->value = round;
        for (int step = 0; step < 2; step++)
            pthread_barrier_wait(&step_end);
    }
    return NULL;
}

static void *use(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < 2; step++)
            pthread_barrier_wait(&step_end);
        sum += shared->value;
        pthread_barrier_wait(&step_end);
    }
    return NULL;
}

int main(void)
{
    pthread_t clearer, renewer, user;
    pthread_barrier_init(&step_end, NULL, 3);
    pthread_create(&clearer, NULL, clear, NULL);
    pthread_create(&renewer, NULL, renew, NULL);
    pthread_create(&user, NULL, use, NULL);
    pthread_join(clearer, NULL);
    pthread_join(renewer, NULL);
    pthread_join(user, NULL);
    free(shared);
    printf("sum %ld\n", sum);
    return 0;
}
