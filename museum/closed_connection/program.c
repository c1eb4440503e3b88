// A server closes a connection that is idle while its worker is about to say goodbye on it.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "show.h"

SHOW_ORDER("idle", "closing", "closed", "parting");

#define REQUESTS 12

struct connection {
    int descriptor;
    int is_idle;
    int n_sent, n_lost;
    pthread_mutex_t lock;
    pthread_cond_t idle;
};

static struct connection connection = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

__attribute__((noinline)) static void reply(struct connection *to, const char *text)
{
    ssize_t length = strlen(text);
    if (write(to->descriptor, text, length) == length) /* guilty: use */
        to->n_sent++;
    else
        to->n_lost++;
}

static void tell_idle(struct connection *served)
{
    pthread_mutex_lock(&served->lock);
    served->is_idle = 1;
    pthread_cond_signal(&served->idle);
    pthread_mutex_unlock(&served->lock);
}

static void *serve(void *argument)
{
    struct connection *served = argument;
    unsigned digest = 7;
    for (int request = 0; request < REQUESTS; request++) {
        for (int byte = 0; byte < 200; byte++)
            digest = digest * 31 + request;
        reply(served, digest & 1 ? "odd\n" : "even\n");
    }
#ifdef FIXED
    reply(served, "goodbye\n");
#endif
    tell_idle(served);
    AT("idle");
#ifndef FIXED
    for (int byte = 0; byte < 8; byte++)
        digest ^= digest >> byte;
    AT("parting");
    reply(served, digest ? "goodbye\n" : "farewell\n");
#endif
    return NULL;
}

static void wait_until_idle(struct connection *served)
{
    pthread_mutex_lock(&served->lock);
    while (!served->is_idle)
        pthread_cond_wait(&served->idle, &served->lock);
    pthread_mutex_unlock(&served->lock);
}

int main(void)
{
    pthread_t worker;
    connection.descriptor = open("/dev/null", O_WRONLY);
    pthread_create(&worker, NULL, serve, &connection);
    wait_until_idle(&connection);
    AT("closing");
    close(connection.descriptor); /* guilty: close */
    AT("closed");
    pthread_join(worker, NULL);
    if (connection.n_lost > 0)
        return 1;
    printf("%d replies\n", connection.n_sent);
    return 0;
}
