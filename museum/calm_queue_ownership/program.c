// Jobs are changed without a lock by whoever took them off the queue last; the queue alone is locked.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS 20

struct job {
    int number, n_steps;
    struct job *next;
};

struct queue {
    struct job *first;
    struct job **end;
    pthread_mutex_t lock;
    pthread_cond_t filled;
};

static struct queue raw, cooked;

static void init(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
}

static void put(struct queue *queue, struct job *job)
{
    pthread_mutex_lock(&queue->lock);
    job->next = NULL;
    *queue->end = job;
    queue->end = &job->next;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

static struct job *take(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->first)
        pthread_cond_wait(&queue->filled, &queue->lock);
    struct job *job = queue->first;
    queue->first = job->next;
    if (!queue->first)
        queue->end = &queue->first;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static void *cook(void *unused)
{
    (void)unused;
    for (int count = 0; count < JOBS; count++) {
        struct job *job = take(&raw);
        job->n_steps += job->number % 3 + 1;
        put(&cooked, job);
    }
    return NULL;
}

static void *serve(void *n_steps)
{
    for (int count = 0; count < JOBS; count++) {
        struct job *job = take(&cooked);
        job->n_steps++;
        *(long *)n_steps += job->n_steps;
        free(job);
    }
    return NULL;
}

int main(void)
{
    pthread_t cooking, serving;
    long n_steps = 0;
    init(&raw);
    init(&cooked);
    pthread_create(&cooking, NULL, cook, NULL);
    pthread_create(&serving, NULL, serve, &n_steps);
    for (int number = 0; number < JOBS; number++) {
        struct job *job = calloc(1, sizeof *job);
        job->number = number;
        job->n_steps = 1;
        put(&raw, job);
    }
    pthread_join(cooking, NULL);
    pthread_join(serving, NULL);
    printf("%ld steps\n", n_steps);
    return 0;
}
