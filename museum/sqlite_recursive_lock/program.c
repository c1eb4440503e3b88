// SQLite 1672: whether a lock nests is found out lazily; a thread that sees the unfinished answer locks itself out.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("begun", "asking 1", "asked 1", "finishing");

#define STATEMENTS 10

enum answer { UNKNOWN, UNFINISHED, NESTING };

static struct {
    volatile enum answer nests;
    pthread_mutex_t mutex;
    _Atomic(pthread_t) owner;
    atomic_int depth;
} database_lock = {UNKNOWN, PTHREAD_MUTEX_INITIALIZER, 0, 0};

static pthread_mutex_t probe_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t attempt_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t opened;
static long n_statements;

__attribute__((noinline)) static void probe(void)
{
    AT("begun");
    for (int attempt = 0; attempt < 40; attempt++) { // tries locks out, to see whether they are the thread's own
        pthread_mutex_lock(&attempt_lock);
        pthread_mutex_unlock(&attempt_lock);
    }
    AT("finishing");
    database_lock.nests = NESTING; /* guilty: finish */
}

static int lock_nests(int thread)
{
    (void)thread;
#ifdef FIXED
    pthread_mutex_lock(&probe_lock);
#endif
    AT_NUMBER("asking", thread);
    if (database_lock.nests == UNKNOWN) { /* guilty: ask */
        database_lock.nests = UNFINISHED; /* guilty: begin */
        probe();
    }
    int nests = database_lock.nests == NESTING;
    AT_NUMBER("asked", thread);
#ifdef FIXED
    pthread_mutex_unlock(&probe_lock);
#endif
    return nests;
}

static void enter(int nests)
{
    if (nests && database_lock.depth > 0 && pthread_equal(database_lock.owner, pthread_self())) {
        database_lock.depth++;
        return;
    }
    pthread_mutex_lock(&database_lock.mutex); /* guilty: lock */
    database_lock.owner = pthread_self();
    database_lock.depth = 1;
}

static void leave(void)
{
    if (--database_lock.depth == 0)
        pthread_mutex_unlock(&database_lock.mutex);
}

static void *run_statements(void *argument)
{
    pthread_barrier_wait(&opened);
    int nests = lock_nests(*(int *)argument);
    for (int number = 0; number < STATEMENTS; number++) {
        enter(nests);
        n_statements++;
        enter(nests); // a statement inside a statement
        n_statements++;
        leave();
        leave();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    (void)probe_lock;
    pthread_barrier_init(&opened, NULL, 2);
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, run_statements, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("%ld statements\n", n_statements);
    return 0;
}
