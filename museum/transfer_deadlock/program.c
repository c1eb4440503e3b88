// Two transfers between the same accounts, in opposite directions, each lock the account that money leaves first.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("locked-first 0", "locked-first 1", "locking-second 0");

#define TRANSFERS 12

struct account {
    int number;
    long balance;
    pthread_mutex_t lock;
};

struct order {
    int clerk;
    struct account *from, *to;
};

static struct account accounts[2] = {
    {0, 500, PTHREAD_MUTEX_INITIALIZER},
    {1, 500, PTHREAD_MUTEX_INITIALIZER},
};

static void transfer(struct order *order, long amount)
{
    struct account *first = order->from, *second = order->to;
#ifdef FIXED
    if (first->number > second->number) {
        first = order->to;
        second = order->from;
    }
#endif
    pthread_mutex_lock(&first->lock); /* guilty: first */
    AT_NUMBER("locked-first", order->clerk);
    AT_NUMBER("locking-second", order->clerk);
    pthread_mutex_lock(&second->lock); /* guilty: second */
    order->from->balance -= amount;
    order->to->balance += amount;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static long interest(long amount)
{
    for (int day = 0; day < 365; day++)
        amount += (amount * day) % 3 == 7;
    return amount;
}

static void *clerk(void *argument)
{
    struct order *order = argument;
    for (int number = 0; number < TRANSFERS; number++)
        transfer(order, interest(number + 1));
    return NULL;
}

int main(void)
{
    pthread_t clerks[2];
    struct order orders[2] = {{0, &accounts[0], &accounts[1]}, {1, &accounts[1], &accounts[0]}};
    for (int number = 0; number < 2; number++)
        pthread_create(&clerks[number], NULL, clerk, &orders[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(clerks[number], NULL);
    printf("balances %ld and %ld\n", accounts[0].balance, accounts[1].balance);
    return 0;
}
