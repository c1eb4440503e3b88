// A grid is relaxed in phases: every thread reads its neighbours' rows of the phase before; barriers keep phases apart.
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define ROWS 3
#define COLUMNS 16
#define PHASES 12

static long grids[2][THREADS * ROWS + 2][COLUMNS];
static pthread_barrier_t phase_end;

static void relax_row(long (*from)[COLUMNS], long (*to)[COLUMNS], int row)
{
    for (int column = 0; column < COLUMNS; column++)
        to[row][column] = (from[row - 1][column] + from[row + 1][column] + column) / 2;
}

static void *relax(void *argument)
{
    int self = *(int *)argument;
    for (int phase = 0; phase < PHASES; phase++) {
        for (int row = 1 + self * ROWS; row <= (self + 1) * ROWS; row++)
            relax_row(grids[phase % 2], grids[(phase + 1) % 2], row);
        pthread_barrier_wait(&phase_end);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    long sum = 0;
    pthread_barrier_init(&phase_end, NULL, THREADS);
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, relax, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    for (int row = 1; row <= THREADS * ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            sum += grids[PHASES % 2][row][column];
    printf("sum %ld\n", sum);
    return 0;
}
