// Apache 45605: a worker counts itself idle and signals that later; the listener, woken late, does not look at the count again.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"
#include "state.h"

SHOW_ORDER("counted 0", "looking 0", "taken 0", "listener-waits", "signalling 0", "taken 1", "going-on 0", "starting 1");

#define WORKERS 2
#define CONNECTIONS 40

struct queue_info {
    atomic_int idlers;
    pthread_mutex_t idlers_mutex;
    pthread_cond_t wait_for_idler;
};

static struct queue_info info = {0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static struct {
    int connections[CONNECTIONS + WORKERS];
    int head, tail;
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

static atomic_int n_served;

static void set_idle(int worker)
{
    (void)worker;
    int before = atomic_fetch_add(&info.idlers, 1); /* guilty: count */
    AT_NUMBER("counted", worker);
    if (before == 0) {
        AT_NUMBER("signalling", worker);
        pthread_mutex_lock(&info.idlers_mutex);
        pthread_cond_signal(&info.wait_for_idler); /* guilty: signal */
        pthread_mutex_unlock(&info.idlers_mutex);
    }
    AT_NUMBER("going-on", worker);
}

static void wait_for_idler(int connection)
{
    (void)connection;
    AT_NUMBER("looking", connection);
    if (atomic_load(&info.idlers) == 0) {
        pthread_mutex_lock(&info.idlers_mutex);
#ifdef FIXED
        while (atomic_load(&info.idlers) == 0)
#else
        if (atomic_load(&info.idlers) == 0) /* guilty: look */
#endif
        {
            if (connection == 1)
                AT("listener-waits");
            pthread_cond_wait(&info.wait_for_idler, &info.idlers_mutex);
        }
        pthread_mutex_unlock(&info.idlers_mutex);
    }
    int before = atomic_fetch_sub(&info.idlers, 1); /* guilty: take */
    assert(before > 0);
    AT_NUMBER("taken", connection);
}

static void push(int connection)
{
    pthread_mutex_lock(&queue.lock);
    queue.connections[queue.tail++] = connection;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

static int pop(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.head == queue.tail)
        pthread_cond_wait(&queue.not_empty, &queue.lock);
    int connection = queue.connections[queue.head++];
    pthread_mutex_unlock(&queue.lock);
    return connection;
}

static void *worker(void *argument)
{
    int number = *(int *)argument;
    AT_NUMBER("starting", number);
    READ_STATE();
    for (;;) {
        set_idle(number);
        int connection = pop();
        if (connection < 0)
            return NULL;
        for (int byte = 0; byte < 100; byte++)
            connection = connection * 3 % 1009;
        atomic_fetch_add(&n_served, 1);
    }
}

static void *listener(void *unused)
{
    (void)unused;
    for (int connection = 0; connection < CONNECTIONS; connection++) {
        wait_for_idler(connection);
        push(connection);
    }
    for (int number = 0; number < WORKERS; number++)
        push(-1);
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS], listening;
    int numbers[WORKERS];
    WRITE_STATE();
    pthread_create(&listening, NULL, listener, NULL);
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, worker, &numbers[number]);
    }
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
    pthread_join(listening, NULL);
    printf("%d connections served\n", n_served);
    return 0;
}
