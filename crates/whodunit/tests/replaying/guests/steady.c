// Threads that take turns for ARGV[1] steps, and take bytes from outside all the time. Prints one line a step, which
// depends on the number of the step alone, each in a single write.
//@ cc: -O2 -pthread
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, CHUNK = 8192 };

static pthread_barrier_t begin, end;
static uint64_t sums[THREADS];
static long step, steps;

static uint64_t mixed(uint64_t value) {
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdull;
    return value ^ (value >> 29);
}

// What comes from outside is read and used, but does not show.
static uint64_t from_outside(void) {
    unsigned char bytes[CHUNK];
    struct timespec now;
    if (getrandom(bytes, sizeof bytes, 0) < 0) abort();
    clock_gettime(CLOCK_REALTIME, &now);
    return bytes[now.tv_nsec % CHUNK] * 0ull;
}

static void *work(void *argument) {
    long own = (long)argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (step == steps) return 0;
        sums[own] += from_outside();
        for (int i = 0; i < 500; i++) sums[own] = mixed(sums[own] + i + own);
        pthread_barrier_wait(&end);
    }
}

int main(int argc, char **argv) {
    steps = argc > 1 ? atol(argv[1]) : 100;
    pthread_t threads[THREADS];
    pthread_barrier_init(&begin, 0, THREADS + 1);
    pthread_barrier_init(&end, 0, THREADS + 1);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (; step < steps; step++) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        char line[80];
        int length = snprintf(line, sizeof line, "step %ld: %016llx\n", step,
                              (unsigned long long)(sums[0] ^ sums[1] ^ sums[2]));
        if (write(1, line, length) != length) abort();
    }
    pthread_barrier_wait(&begin);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 7;
}
