/* The LU decomposition of a matrix by blocks: threads own the blocks in turn, with barriers between the steps. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, SIDE = 896, BLOCK = 32, BLOCKS = SIDE / BLOCK };

static double *matrix;
static pthread_barrier_t barrier;

static double *block_at(int row, int column)
{
    return matrix + ((size_t)row * BLOCKS + column) * BLOCK * BLOCK;
}

static int is_mine(int number, int row, int column)
{
    return (row + column * 3) % THREADS == number;
}

static void decompose(double *block)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++) {
            double factor = block[i * BLOCK + k] /= block[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                block[i * BLOCK + j] -= factor * block[k * BLOCK + j];
        }
}

/* A block right of the diagonal one. */
static void solve_row(double *block, const double *diagonal)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                block[i * BLOCK + j] -= diagonal[i * BLOCK + k] * block[k * BLOCK + j];
}

/* A block below the diagonal one. */
static void solve_column(double *block, const double *diagonal)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = 0; i < BLOCK; i++) {
            double factor = block[i * BLOCK + k] /= diagonal[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                block[i * BLOCK + j] -= factor * diagonal[k * BLOCK + j];
        }
}

static void update(double *block, const double *left, const double *above)
{
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++)
            for (int j = 0; j < BLOCK; j++)
                block[i * BLOCK + j] -= left[i * BLOCK + k] * above[k * BLOCK + j];
}

static void *work(void *own)
{
    int number = (int)(long)own;
    for (int k = 0; k < BLOCKS; k++) {
        if (is_mine(number, k, k))
            decompose(block_at(k, k));
        pthread_barrier_wait(&barrier);
        for (int i = k + 1; i < BLOCKS; i++) {
            if (is_mine(number, k, i))
                solve_row(block_at(k, i), block_at(k, k));
            if (is_mine(number, i, k))
                solve_column(block_at(i, k), block_at(k, k));
        }
        pthread_barrier_wait(&barrier);
        for (int i = k + 1; i < BLOCKS; i++)
            for (int j = k + 1; j < BLOCKS; j++)
                if (is_mine(number, i, j))
                    update(block_at(i, j), block_at(i, k), block_at(k, j));
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    matrix = malloc((size_t)SIDE * SIDE * sizeof *matrix);
    unsigned state = 1;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            state = state * 1664525 + 1013904223;
            block_at(i / BLOCK, j / BLOCK)[i % BLOCK * BLOCK + j % BLOCK] = (state >> 8) / 16777216.0 + (i == j) * SIDE;
        }
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double logarithm = 0;
    for (int i = 0; i < SIDE; i++)
        logarithm += log(fabs(block_at(i / BLOCK, i / BLOCK)[i % BLOCK * BLOCK + i % BLOCK]));
    printf("%.6f\n", logarithm);
    return 0;
}
