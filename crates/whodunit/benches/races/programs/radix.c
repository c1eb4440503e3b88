/* A radix sort: each thread counts its share of the keys by digits and then moves them where they belong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, KEYS = 4 << 20, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, ROUNDS = 3 };

static unsigned *keys, *sorted;
static unsigned counts[THREADS][DIGITS];
static pthread_barrier_t barrier;

/* Where the thread's keys with each digit begin. */
static void places(int number, unsigned *next)
{
    unsigned before = 0;
    for (int digit = 0; digit < DIGITS; digit++)
        for (int thread = 0; thread < THREADS; thread++) {
            if (thread == number)
                next[digit] = before;
            before += counts[thread][digit];
        }
}

static void pass(int number, int shift, const unsigned *from, unsigned *to)
{
    unsigned first = KEYS / THREADS * number, last = first + KEYS / THREADS, next[DIGITS];
    for (int digit = 0; digit < DIGITS; digit++)
        counts[number][digit] = 0;
    for (unsigned i = first; i < last; i++)
        counts[number][from[i] >> shift & (DIGITS - 1)]++;
    pthread_barrier_wait(&barrier);
    places(number, next);
    for (unsigned i = first; i < last; i++)
        to[next[from[i] >> shift & (DIGITS - 1)]++] = from[i];
    pthread_barrier_wait(&barrier);
}

static void *work(void *own)
{
    int number = (int)(long)own;
    unsigned first = KEYS / THREADS * number, last = first + KEYS / THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned state = number + THREADS * round + 1;
        for (unsigned i = first; i < last; i++) {
            state = state * 1664525 + 1013904223;
            keys[i] = state ^ state >> 16;
        }
        pthread_barrier_wait(&barrier);
        for (int shift = 0; shift < 32; shift += 2 * DIGIT_BITS) {
            pass(number, shift, keys, sorted);
            pass(number, shift + DIGIT_BITS, sorted, keys);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    keys = malloc(KEYS * sizeof *keys);
    sorted = malloc(KEYS * sizeof *sorted);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    unsigned long sum = 0, misplaced = 0;
    for (unsigned i = 1; i < KEYS; i++) {
        misplaced += keys[i - 1] > keys[i];
        sum = sum * 31 + keys[i];
    }
    printf("%lu misplaced, %lx\n", misplaced, sum);
    return 0;
}
