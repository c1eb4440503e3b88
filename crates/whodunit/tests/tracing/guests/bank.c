#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

struct account {
    int number;
    long balance;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready;
static struct account *first;
static int counter = 3;
static int table[4];
static __thread int mine;

static void deposit(struct account *account, long amount)
{
    pthread_mutex_lock(&lock);
    account->balance += amount;
    counter++;
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    int *shared = argument;
    sem_wait(&ready);
    mine = 7;
    *shared = 5;
    table[2] = 9;
    deposit(first, 100);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int local = 1;
    sem_init(&ready, 0, 0);
    struct account *account = malloc(sizeof *account);
    account->number = 17;
    account->balance = 0;
    first = account;
    pthread_create(&thread, NULL, work, &local);
    deposit(account, 50);
    sem_post(&ready);
    pthread_join(thread, NULL);
    printf("%ld %d %d\n", account->balance, counter, local);
    free(account);
    return 0;
}
