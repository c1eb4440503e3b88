// Readers follow an atomic pointer to an unchanging table; the writer publishes new ones and frees old ones after a grace period.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 2
#define UPDATES 10
#define LOOKUPS 60

struct table {
    int version;
    int rows[8];
};

static _Atomic(struct table *) current;
static atomic_int reading[READERS];
static atomic_int n_bad;

static struct table *make_table(int version)
{
    struct table *table = malloc(sizeof *table);
    table->version = version;
    for (int row = 0; row < 8; row++)
        table->rows[row] = version * 8 + row;
    return table;
}

static void *read_rows(void *argument)
{
    int self = *(int *)argument;
    for (int number = 0; number < LOOKUPS; number++) {
        atomic_store(&reading[self], 1);
        struct table *table = atomic_load(&current);
        int bad = table->rows[number % 8] != table->version * 8 + number % 8;
        atomic_store(&reading[self], 0);
        atomic_fetch_add(&n_bad, bad);
    }
    return NULL;
}

static void wait_for_readers(void)
{
    for (int reader = 0; reader < READERS; reader++)
        while (atomic_load(&reading[reader]))
            sched_yield();
}

static void *update(void *unused)
{
    (void)unused;
    for (int version = 1; version <= UPDATES; version++) {
        struct table *old = atomic_exchange(&current, make_table(version));
        wait_for_readers();
        old->version = -1;
        free(old);
    }
    return NULL;
}

int main(void)
{
    pthread_t readers[READERS], writer;
    int numbers[READERS];
    atomic_store(&current, make_table(0));
    for (int number = 0; number < READERS; number++) {
        numbers[number] = number;
        pthread_create(&readers[number], NULL, read_rows, &numbers[number]);
    }
    pthread_create(&writer, NULL, update, NULL);
    for (int number = 0; number < READERS; number++)
        pthread_join(readers[number], NULL);
    pthread_join(writer, NULL);
    printf("version %d, %d bad\n", atomic_load(&current)->version, n_bad);
    return 0;
}
