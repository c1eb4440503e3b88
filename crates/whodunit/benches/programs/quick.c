//@ cc: -pthread
// Two threads that compute for about a millisecond and meet at a lock now and then: about 2 ms in all, with its start.
#include <pthread.h>
#include <stdio.h>

#define ROUNDS 40
#define STEPS 12000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned total;

static void *work(void *seed)
{
    unsigned sum = (unsigned)(long)seed;
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < STEPS; step++)
            sum = sum * 69069u + 1;
        pthread_mutex_lock(&lock);
        total ^= sum;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (long number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, work, (void *)number);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("%08x\n", total);
    return 0;
}
