// Threads set different bits of one word without a lock. A bit may get lost; the word is a hint that nothing depends on.
#include <pthread.h>
#include <stdio.h>

#define THREADS 3

static struct {
    volatile unsigned seen;
    unsigned char pages[THREADS][64];
} state;

static long n_pages[THREADS];

static void *visit(void *argument)
{
    int self = *(int *)argument;
    for (int page = 0; page < 64; page++) {
        state.pages[self][page] = page;
        if (page % 16 == 0)
            state.seen |= 1u << (self * 8 + page / 16); /* guilty: set */
        n_pages[self]++;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, visit, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("%ld pages\n", n_pages[0] + n_pages[1] + n_pages[2]);
    return 0;
}
