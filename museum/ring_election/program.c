// Three nodes elect leaders: one looks at its neighbour's flag and then raises its own. All three must not win.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("looked 0", "looked 1", "looked 2", "raising 0", "raising 1", "raising 2");

#define NODES 3
#define ELECTIONS 8

struct election {
    atomic_int raised[NODES];
    atomic_int n_leaders;
    pthread_mutex_t lock;
};

static struct election elections[ELECTIONS];
static pthread_barrier_t next_election;

static void take_part(struct election *election, int self)
{
    char log_line[48];
#ifdef FIXED
    pthread_mutex_lock(&election->lock);
#endif
    int neighbour_raised = atomic_load(&election->raised[(self + 1) % NODES]); /* guilty: look */
    AT_NUMBER("looked", self);
    snprintf(log_line, sizeof log_line, "node %d saw %d", self, neighbour_raised);
    AT_NUMBER("raising", self);
    atomic_store(&election->raised[self], 1); /* guilty: raise */
#ifdef FIXED
    pthread_mutex_unlock(&election->lock);
#endif
    if (!neighbour_raised)
        atomic_fetch_add(&election->n_leaders, 1);
}

static void *node(void *argument)
{
    int self = *(int *)argument;
    for (int number = 0; number < ELECTIONS; number++) {
        take_part(&elections[number], self);
        pthread_barrier_wait(&next_election);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[NODES];
    int numbers[NODES];
    pthread_barrier_init(&next_election, NULL, NODES);
    for (int number = 0; number < ELECTIONS; number++)
        pthread_mutex_init(&elections[number].lock, NULL);
    for (int number = 0; number < NODES; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, node, &numbers[number]);
    }
    for (int number = 0; number < NODES; number++)
        pthread_join(threads[number], NULL);
    for (int number = 0; number < ELECTIONS; number++)
        if (elections[number].n_leaders == NODES) {
            printf("election %d: everybody leads\n", number);
            return 1;
        }
    printf("%d elections\n", ELECTIONS);
    return 0;
}
