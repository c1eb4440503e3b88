// A reader falls back on a second route while the first is being replaced; it fails only if both are replaced at once.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("cleared 0", "cleared 1", "reading", "read", "renewing 0", "renewing 1");

#define REPLACEMENTS 8
#define PACKETS 40

struct route {
    int gateway;
    int hops;
};

static struct route *volatile routes[2];
static pthread_mutex_t route_lock = PTHREAD_MUTEX_INITIALIZER;
static long n_hops, n_packets;

static struct route *new_route(int gateway)
{
    struct route *route = malloc(sizeof *route);
    route->gateway = gateway;
    route->hops = 1;
    return route;
}

static void *replace(void *argument)
{
    int which = *(int *)argument;
    for (int number = 0; number < REPLACEMENTS; number++) {
#ifdef FIXED
        pthread_mutex_lock(&route_lock);
#endif
        routes[which] = NULL; /* guilty: clear */
        AT_NUMBER("cleared", which);
        AT_NUMBER("renewing", which);
        routes[which] = new_route(number);
#ifdef FIXED
        pthread_mutex_unlock(&route_lock);
#endif
    }
    return NULL;
}

static struct route *pick_route(void)
{
    struct route *route = routes[0]; /* guilty: first */
    if (!route)
        route = routes[1]; /* guilty: second */
    return route;
}

static void *forward(void *unused)
{
    char header[24];
    (void)unused;
    AT("reading");
    for (int number = 0; number < PACKETS; number++) {
        snprintf(header, sizeof header, "packet %d", number);
#ifdef FIXED
        pthread_mutex_lock(&route_lock);
#endif
        n_hops += pick_route()->hops; /* guilty: use */
#ifdef FIXED
        pthread_mutex_unlock(&route_lock);
#endif
        n_packets++;
        AT("read");
    }
    return NULL;
}

int main(void)
{
    pthread_t replacers[2], forwarder;
    int numbers[2] = {0, 1};
    (void)route_lock;
    for (int number = 0; number < 2; number++)
        routes[number] = new_route(number);
    pthread_create(&forwarder, NULL, forward, NULL);
    for (int number = 0; number < 2; number++)
        pthread_create(&replacers[number], NULL, replace, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(replacers[number], NULL);
    pthread_join(forwarder, NULL);
    printf("%ld packets, %ld hops\n", n_packets, n_hops);
    return 0;
}
