// A thread pool's worker tests the shutdown flag, which is set without the lock, and then waits for a signal already given.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("done-seen", "starting 1", "tested 1", "stopping", "told", "waiting 1");

#define WORKERS 4
#define JOBS 12

static struct {
    int n_jobs, n_done;
    atomic_int stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_cond_t done;
} pool = {0, 0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void finish_job(void)
{
    if (++pool.n_done == JOBS)
        pthread_cond_signal(&pool.done);
}

static void *work(void *argument)
{
    char line[24];
    int self = *(int *)argument;
    AT_NUMBER("starting", self);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.n_jobs > 0) {
            pool.n_jobs--;
            finish_job();
        }
        if (atomic_load(&pool.stop)) /* guilty: test */
            break;
        AT_NUMBER("tested", self);
        snprintf(line, sizeof line, "worker %d idle", self);
        AT_NUMBER("waiting", self);
        pthread_cond_wait(&pool.changed, &pool.lock); /* guilty: wait */
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static void submit_all(void)
{
    for (int job = 0; job < JOBS; job++) {
        pthread_mutex_lock(&pool.lock);
        pool.n_jobs++;
        pthread_cond_broadcast(&pool.changed);
        pthread_mutex_unlock(&pool.lock);
    }
}

static void stop_all(void)
{
    AT("stopping");
#ifdef FIXED
    pthread_mutex_lock(&pool.lock);
#endif
    atomic_store(&pool.stop, 1);           /* guilty: stop */
    pthread_cond_broadcast(&pool.changed); /* guilty: tell */
#ifdef FIXED
    pthread_mutex_unlock(&pool.lock);
#endif
    AT("told");
}

int main(void)
{
    pthread_t workers[WORKERS];
    int numbers[WORKERS];
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, work, &numbers[number]);
    }
    submit_all();
    pthread_mutex_lock(&pool.lock);
    while (pool.n_done < JOBS)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    AT("done-seen");
    stop_all();
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
    printf("%d jobs done\n", pool.n_done);
    return 0;
}
