// SPLASH-2 FFT: after the last barrier a worker stores the finish time that main, no longer waiting, already prints.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("reading", "read", "storing");

#define WORKERS 3
#define POINTS 64

struct global_memory {
    volatile long start_time;
    volatile long finish_time;
    volatile long init_time;
    pthread_barrier_t start;
};

static struct global_memory shared;
static double points[POINTS];
static long ticks[WORKERS + 1];

static void butterfly(int self)
{
    for (int pass = 1; pass < 4; pass++)
        for (int point = self; point < POINTS; point += WORKERS + 1) {
            points[point] = points[point] * 0.5 + pass;
            ticks[self]++;
        }
}

static void slave_start(int self)
{
    butterfly(self);
    pthread_barrier_wait(&shared.start);
    if (self == WORKERS) {
        long total = 0;
        for (int worker = 0; worker <= WORKERS; worker++)
            total += ticks[worker];
        AT("storing");
        shared.finish_time = shared.start_time + total; /* guilty: store */
    }
}

static void *worker(void *argument)
{
    slave_start(*(int *)argument);
    return NULL;
}

static double checksum(void)
{
    double sum = 0;
    for (int step = 0; step < 100 * POINTS; step++)
        sum += points[step % POINTS];
    return sum;
}

static void print_times(void)
{
    double sum = checksum();
    AT("reading");
    long elapsed = shared.finish_time - shared.init_time; /* guilty: read */
    AT("read");
    printf("start %ld, total time %ld, sum %.0f\n", shared.start_time, elapsed, sum);
}

int main(void)
{
    pthread_t workers[WORKERS];
    int numbers[WORKERS];
    pthread_barrier_init(&shared.start, NULL, WORKERS + 1);
    shared.init_time = 1000;
    shared.start_time = 1005;
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number + 1;
        pthread_create(&workers[number], NULL, worker, &numbers[number]);
    }
    slave_start(0);
#ifdef FIXED
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
#endif
    print_times();
#ifndef FIXED
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
#endif
    return 0;
}
