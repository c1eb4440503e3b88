// A bank account: every access to the balance is locked, but fetching it and storing the new one are two locked calls.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("fetched deposit", "storing withdraw", "stored withdraw", "storing deposit");

// No lost deposits make up for lost withdrawals: 21 and 30 have no common multiple that is small enough.
#define DEPOSITS 10
#define DEPOSITED 21
#define WITHDRAWALS 7
#define WITHDRAWN 30

struct account {
    const char *owner;
    long balance;
    long n_bookings;
    pthread_mutex_t lock;
    pthread_mutex_t booking;
};

static struct account account = {"ada", 1000, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static long fetch_balance(struct account *from)
{
    pthread_mutex_lock(&from->lock);
    long balance = from->balance; /* guilty: fetch */
    pthread_mutex_unlock(&from->lock);
    return balance;
}

static void store_balance(struct account *to, long balance)
{
    pthread_mutex_lock(&to->lock);
    to->balance = balance; /* guilty: store */
    to->n_bookings++;
    pthread_mutex_unlock(&to->lock);
}

static long fee(long amount)
{
    long cents = amount;
    for (int step = 0; step < 500; step++)
        cents = (cents * 7 + 3) % 1001;
    return cents - cents;
}

static void deposit(struct account *to, long amount)
{
#ifdef FIXED
    pthread_mutex_lock(&to->booking);
#endif
    long balance = fetch_balance(to);
    AT("fetched deposit");
    balance += amount - fee(amount);
    AT("storing deposit");
    store_balance(to, balance);
#ifdef FIXED
    pthread_mutex_unlock(&to->booking);
#endif
}

static void withdraw(struct account *from, long amount)
{
#ifdef FIXED
    pthread_mutex_lock(&from->booking);
#endif
    long balance = fetch_balance(from);
    balance -= amount + fee(amount);
    AT("storing withdraw");
    store_balance(from, balance);
    AT("stored withdraw");
#ifdef FIXED
    pthread_mutex_unlock(&from->booking);
#endif
}

static void *deposit_all(void *unused)
{
    (void)unused;
    for (int round = 0; round < DEPOSITS; round++)
        deposit(&account, DEPOSITED);
    return NULL;
}

static void *withdraw_all(void *unused)
{
    (void)unused;
    for (int round = 0; round < WITHDRAWALS; round++)
        withdraw(&account, WITHDRAWN);
    return NULL;
}

int main(void)
{
    pthread_t depositor, withdrawer;
    pthread_create(&depositor, NULL, deposit_all, NULL);
    pthread_create(&withdrawer, NULL, withdraw_all, NULL);
    pthread_join(depositor, NULL);
    pthread_join(withdrawer, NULL);
    printf("%ld bookings, balance %ld\n", account.n_bookings, account.balance);
    return 0;
}
