// A second of computing, and 24 tables that a thread uses until another one closes them, each by statements of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct table {
    unsigned n_rows;
    unsigned checksum;
};

#define ROUNDS 24
#define STEPS 16000000u

#define TABLES(apply)                                                                                       \
    apply(0) apply(1) apply(2) apply(3) apply(4) apply(5) apply(6) apply(7) apply(8) apply(9) apply(10)     \
    apply(11) apply(12) apply(13) apply(14) apply(15) apply(16) apply(17) apply(18) apply(19) apply(20)     \
    apply(21) apply(22) apply(23)

static struct table *volatile tables[ROUNDS];

static unsigned compute(unsigned seed)
{
    for (unsigned step = 0; step < STEPS; step++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

#define USE(number)                                        \
    sum += compute(number);                                \
    if (tables[number])                                    \
        sum += tables[number]->n_rows;

static void *query(void *unused)
{
    unsigned sum = 0;
    (void)unused;
    TABLES(USE)
    return (void *)(size_t)sum;
}

#define CLOSE(number) tables[number] = NULL;

static void *flush(void *unused)
{
    unsigned sum = 0;
    (void)unused;
    for (int round = 0; round < ROUNDS + 2; round++)
        sum += compute(round);
    TABLES(CLOSE)
    return (void *)(size_t)sum;
}

int main(void)
{
    pthread_t threads[2];
    for (int number = 0; number < ROUNDS; number++) {
        tables[number] = malloc(sizeof(struct table));
        tables[number]->n_rows = number;
    }
    pthread_create(&threads[0], NULL, query, NULL);
    pthread_create(&threads[1], NULL, flush, NULL);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    puts("done");
    return 0;
}
