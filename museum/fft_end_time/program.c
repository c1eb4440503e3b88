// SPLASH-2 FFT: after the last barrier a worker stores the finish time that main, no longer waiting, prints before it exits.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "show.h"
#include "state.h"

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
    READ_STATE();
    slave_start(*(int *)argument);
    return NULL;
}

static double checksum(void)
{
    double sum = 0;
    for (int step = 0; step < 40 * POINTS; step++)
        sum += points[step % POINTS];
    return sum;
}

/* The time is what the program ends with, at once: a store that is late then never comes. */
static void print_times(void)
{
    char text[32];
    long initialised = shared.init_time;
    AT("reading");
    long elapsed = shared.finish_time - initialised; /* guilty: read */
    AT("read");
    int length = snprintf(text, sizeof text, ", total time %ld\n", elapsed);
    _exit(write(STDOUT_FILENO, text, length) == length ? 0 : 1);
}

int main(void)
{
    pthread_t workers[WORKERS];
    static int numbers[WORKERS];
    pthread_barrier_init(&shared.start, NULL, WORKERS + 1);
    WRITE_STATE();
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
    printf("start %ld, sum %.0f", shared.start_time, checksum());
    fflush(stdout);
    print_times();
}
