// Workers that meet an error all set the same flag to the same value, without a lock; nobody reads it before they have ended.
#include <pthread.h>
#include <stdio.h>

#define WORKERS 3
#define RECORDS 30

static volatile int any_error;
static long n_good[WORKERS];

static void *check_records(void *argument)
{
    int self = *(int *)argument;
    for (int record = 0; record < RECORDS; record++) {
        if ((record * 7 + self) % 10 == 3)
            any_error = 1; /* guilty: set */
        else
            n_good[self]++;
    }
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS];
    int numbers[WORKERS];
    long sum = 0;
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, check_records, &numbers[number]);
    }
    for (int number = 0; number < WORKERS; number++) {
        pthread_join(workers[number], NULL);
        sum += n_good[number];
    }
    printf("%ld good, errors: %s\n", sum, any_error ? "yes" : "no");
    return 0;
}
