/* Two workers go over a large grid, each reading what the other wrote, and count what they have done without a lock. */
#include <pthread.h>
#include <stdio.h>

enum { CELLS = 1 << 14, ROUNDS = 6 };

static long grid[2][CELLS];
static pthread_barrier_t barrier;
static volatile int done;

static void *work(void *own)
{
    int number = (int)(long)own;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CELLS; i++)
            grid[number][i] = grid[number][i] / 2 + i + round;
        pthread_barrier_wait(&barrier);
        long sum = 0;
        for (int i = 0; i < CELLS; i++)
            sum += grid[!number][i];
        int before = done; /* read */
        if (sum)
            done = before + 1; /* write */
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d done\n", done);
    return done != 2 * ROUNDS;
}
