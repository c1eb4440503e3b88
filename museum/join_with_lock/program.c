// Shutdown holds the registry's lock while it joins a worker that, to sign off, needs the registry's lock.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("told 0", "closing", "signing-off 0");

#define WORKERS 2

static struct {
    int n_registered;
    long n_jobs;
    pthread_mutex_t lock;
} registry = {0, 0, PTHREAD_MUTEX_INITIALIZER};

static pthread_t workers[WORKERS];
static int n_finished;
static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finish = PTHREAD_COND_INITIALIZER;

static void sign_on(void)
{
    pthread_mutex_lock(&registry.lock);
    registry.n_registered++;
    pthread_mutex_unlock(&registry.lock);
}

static void tell_finished(void)
{
    pthread_mutex_lock(&finish_lock);
    n_finished++;
    pthread_cond_signal(&finish);
    pthread_mutex_unlock(&finish_lock);
}

static void sign_off(long n_jobs)
{
    pthread_mutex_lock(&registry.lock); /* guilty: sign-off */
    registry.n_registered--;
    registry.n_jobs += n_jobs;
    pthread_mutex_unlock(&registry.lock);
}

static void *work(void *argument)
{
    char summary[32];
    int self = *(int *)argument;
    long n_jobs = 0;
    sign_on();
    for (int job = 0; job < 200; job++)
        n_jobs += job % 2;
    tell_finished();
    AT_NUMBER("told", self);
    snprintf(summary, sizeof summary, "worker %d: %ld jobs", self, n_jobs);
    AT_NUMBER("signing-off", self);
    sign_off(n_jobs);
    return NULL;
}

static void wait_until_finished(void)
{
    pthread_mutex_lock(&finish_lock);
    while (n_finished < WORKERS)
        pthread_cond_wait(&finish, &finish_lock);
    pthread_mutex_unlock(&finish_lock);
}

static void shut_down(void)
{
    pthread_mutex_lock(&registry.lock); /* guilty: hold */
    AT("closing");
#ifdef FIXED
    pthread_mutex_unlock(&registry.lock);
#endif
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL); /* guilty: join */
#ifdef FIXED
    pthread_mutex_lock(&registry.lock);
#endif
    printf("%ld jobs, %d left\n", registry.n_jobs, registry.n_registered);
    pthread_mutex_unlock(&registry.lock);
}

int main(void)
{
    int numbers[WORKERS];
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, work, &numbers[number]);
    }
    wait_until_finished();
    shut_down();
    return 0;
}
