/* Transfers between accounts, each with its own mutex: hardly anything but locks. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, ACCOUNTS = 512, TRANSFERS = 1000000 };

struct account {
    pthread_mutex_t lock;
    long balance;
    unsigned moved;
};

static struct account accounts[ACCOUNTS];

static void transfer(struct account *from, struct account *to, long amount)
{
    struct account *first = from < to ? from : to, *second = from < to ? to : from;
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    from->balance -= amount;
    to->balance += amount;
    from->moved++;
    to->moved++;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void *work(void *own)
{
    unsigned state = (unsigned)(long)own;
    for (int i = 0; i < TRANSFERS; i++) {
        state = state * 1664525 + 1013904223;
        unsigned from = state >> 23, to = state >> 14 & (ACCOUNTS - 1);
        if (from != to)
            transfer(&accounts[from], &accounts[to], state >> 8 & 15);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < ACCOUNTS; i++)
        pthread_mutex_init(&accounts[i].lock, NULL);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    long sum = 0;
    unsigned moved = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        sum += accounts[i].balance;
        moved += accounts[i].moved;
    }
    printf("%ld %u\n", sum, moved);
    return 0;
}
