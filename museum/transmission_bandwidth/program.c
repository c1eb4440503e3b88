// Transmission 1.42: the peer manager's timer reads the session's bandwidth, which is initialised only after the timer was set.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("pulse", "initialising");

#define MAGIC_NUMBER 43143
#define PIECES 400

struct bandwidth {
    int magic_number;
    int limit;
    long used;
};

struct session {
    struct bandwidth *bandwidth;
    struct peer_manager *peer_manager;
    unsigned pieces[PIECES];
};

struct peer_manager {
    struct session *session;
    pthread_t events;
    int timer_seen;
    pthread_mutex_t lock;
    pthread_cond_t timer;
};

__attribute__((noinline)) static int is_bandwidth(const struct bandwidth *bandwidth)
{
    return bandwidth && bandwidth->magic_number == MAGIC_NUMBER; /* guilty: read */
}

static void bandwidth_pulse(struct peer_manager *manager)
{
    AT("pulse");
    assert(is_bandwidth(manager->session->bandwidth));
    manager->session->bandwidth->used += manager->session->bandwidth->limit / 2;
}

static void *event_loop(void *argument)
{
    struct peer_manager *manager = argument;
    unsigned hash = 1;
    for (int piece = 0; piece < PIECES * 1000; piece++) // the timer is not due at once
        hash = hash * 69069 + piece;
    manager->session->pieces[0] = hash;
    bandwidth_pulse(manager);
    pthread_mutex_lock(&manager->lock);
    manager->timer_seen = 1;
    pthread_cond_signal(&manager->timer);
    pthread_mutex_unlock(&manager->lock);
    return NULL;
}

static struct peer_manager *new_peer_manager(struct session *session)
{
    struct peer_manager *manager = calloc(1, sizeof *manager);
    manager->session = session;
    pthread_mutex_init(&manager->lock, NULL);
    pthread_cond_init(&manager->timer, NULL);
    pthread_create(&manager->events, NULL, event_loop, manager);
    return manager;
}

static void init_bandwidth(struct session *session)
{
    AT("initialising");
    session->bandwidth->limit = 200;
    session->bandwidth->magic_number = MAGIC_NUMBER; /* guilty: initialise */
}

static struct session *new_session(void)
{
    struct session *session = calloc(1, sizeof *session);
    session->bandwidth = calloc(1, sizeof *session->bandwidth);
#ifdef FIXED
    init_bandwidth(session);
    session->peer_manager = new_peer_manager(session);
#else
    session->peer_manager = new_peer_manager(session);
    init_bandwidth(session);
#endif
    return session;
}

static void wait_for_timer(struct peer_manager *manager)
{
    pthread_mutex_lock(&manager->lock);
    while (!manager->timer_seen)
        pthread_cond_wait(&manager->timer, &manager->lock);
    pthread_mutex_unlock(&manager->lock);
    pthread_join(manager->events, NULL);
}

int main(void)
{
    struct session *session = new_session();
    wait_for_timer(session->peer_manager);
    printf("used %ld of %d\n", session->bandwidth->used, session->bandwidth->limit);
    return 0;
}
