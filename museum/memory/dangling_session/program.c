// A session is freed, but the pointer to the last one that was used stays; a route is allocated where the session was. A hit is then
// counted in the route's name, as it were, and the route fails when it is used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define SESSIONS 8

struct session {
    long number;
    long last_hit;
    char user[24];
};

// Of the size of a session, and of another shape.
struct route {
    long cost;
    const char *host;
    long n_sent, n_lost, weight;
};

static struct session *sessions[SESSIONS];
static struct session *last_session; // saves the search
static struct route *route;
static long now = 0x5eed5eed00000000;

SEPARATE static void open_session(int number)
{
    struct session *session = calloc(1, sizeof *session);
    session->number = number;
    snprintf(session->user, sizeof session->user, "user %d", number);
    sessions[number % SESSIONS] = session;
    last_session = session;
}

SEPARATE static void close_session(int number)
{
    free(sessions[number % SESSIONS]); /* mark: close */
    sessions[number % SESSIONS] = NULL;
#ifdef FIXED
    last_session = NULL;
#endif
}

SEPARATE static void count_hit(int number)
{
    (void)number;
#ifdef FIXED
    if (!last_session) {
        puts("no session");
        return;
    }
#endif
    last_session->last_hit = now++; /* mark: stale-write */
}

SEPARATE static void add_route(const char *host)
{
    route = malloc(sizeof *route);
    route->host = strdup(host);
    route->cost = 1;
    route->n_sent = route->n_lost = 0;
    route->weight = 100;
}

SEPARATE static void send_along(void)
{
    const char *host = route->host; /* mark: read-host */
    size_t length = strlen(host);   /* mark: measure */
    route->n_sent++;
    printf("sent to %s, %zu characters\n", host, length);
}

static void execute(const char *command, const char *argument)
{
    if (strcmp(command, "open") == 0)
        open_session(atoi(argument));
    else if (strcmp(command, "close") == 0)
        close_session(atoi(argument));
    else if (strcmp(command, "hit") == 0)
        count_hit(atoi(argument));
    else if (strcmp(command, "route") == 0)
        add_route(argument);
    else if (strcmp(command, "send") == 0 && route)
        send_along();
}

int main(void)
{
    char line[128], command[16], argument[64];
    while (fgets(line, sizeof line, stdin)) {
        argument[0] = 0;
        if (sscanf(line, "%15s %63s", command, argument) >= 1)
            execute(command, argument);
    }
    return 0;
}
