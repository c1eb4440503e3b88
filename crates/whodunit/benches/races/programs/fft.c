/* A fast Fourier transform of complex numbers, forth and back: a barrier after each of its stages. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, BITS = 18, POINTS = 1 << BITS, ROUNDS = 4 };

struct complex {
    double re, im;
};

static struct complex *points, *roots;
static pthread_barrier_t barrier;

static unsigned reversed(unsigned number)
{
    unsigned result = 0;
    for (int bit = 0; bit < BITS; bit++)
        result |= (number >> bit & 1) << (BITS - 1 - bit);
    return result;
}

static void reorder(unsigned first, unsigned last)
{
    for (unsigned i = first; i < last; i++) {
        unsigned other = reversed(i);
        if (i < other) {
            struct complex kept = points[i];
            points[i] = points[other];
            points[other] = kept;
        }
    }
}

/* The butterflies from `first` to `last` of a stage whose halves are `half` apart. */
static void stage(unsigned half, unsigned first, unsigned last, double sign)
{
    unsigned stride = POINTS / 2 / half;
    for (unsigned i = first; i < last; i++) {
        unsigned within = i & (half - 1);
        struct complex *low = &points[2 * (i - within) + within], *high = low + half;
        struct complex root = roots[within * stride];
        double im = sign * root.im;
        double re_part = high->re * root.re - high->im * im, im_part = high->re * im + high->im * root.re;
        high->re = low->re - re_part;
        high->im = low->im - im_part;
        low->re += re_part;
        low->im += im_part;
    }
}

static void transform(int number, double sign)
{
    unsigned share = POINTS / THREADS;
    reorder(number * share, (number + 1) * share);
    pthread_barrier_wait(&barrier);
    for (unsigned half = 1; half < POINTS; half *= 2) {
        stage(half, number * share / 2, (number + 1) * share / 2, sign);
        pthread_barrier_wait(&barrier);
    }
}

static void *work(void *own)
{
    int number = (int)(long)own;
    unsigned first = number * (POINTS / THREADS), last = first + POINTS / THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        transform(number, 1);
        transform(number, -1);
        for (unsigned i = first; i < last; i++) {
            points[i].re /= POINTS;
            points[i].im /= POINTS;
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    points = malloc(POINTS * sizeof *points);
    roots = malloc(POINTS / 2 * sizeof *roots);
    for (unsigned i = 0; i < POINTS; i++) {
        points[i].re = i % 1000;
        points[i].im = 0;
    }
    for (unsigned i = 0; i < POINTS / 2; i++) {
        roots[i].re = cos(2 * M_PI * i / POINTS);
        roots[i].im = -sin(2 * M_PI * i / POINTS);
    }
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double worst = 0;
    for (unsigned i = 0; i < POINTS; i++)
        worst = fmax(worst, fabs(points[i].re - i % 1000));
    printf("%s\n", worst < 1e-6 ? "as before" : "different");
    return 0;
}
