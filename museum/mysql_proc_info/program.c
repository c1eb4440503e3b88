// MySQL: SHOW PROCESSLIST tests a connection's status string and then uses it, while the connection sets it to NULL.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("tested 1", "clearing 1", "cleared 1", "using 1", "used 1", "going-on 1");

#define CONNECTIONS 3
#define QUERIES 10

struct connection {
    int id;
    const char *volatile proc_info;
    char query[64];
    long rows;
    pthread_mutex_t lock;
};

struct packet {
    char bytes[1024];
    size_t length;
};

static struct connection connections[CONNECTIONS];
static long n_listed;

__attribute__((noinline)) static void store_field(struct packet *packet, const char *text)
{
    size_t length = strlen(text);
    if (packet->length + length + 1 >= sizeof packet->bytes)
        packet->length = 0;
    memcpy(packet->bytes + packet->length, text, length);
    packet->length += length;
    packet->bytes[packet->length++] = '|';
}

__attribute__((noinline)) static void set_status(struct connection *connection, const char *status)
{
#ifdef FIXED
    pthread_mutex_lock(&connection->lock);
#endif
    connection->proc_info = status; /* guilty: clear */
#ifdef FIXED
    pthread_mutex_unlock(&connection->lock);
#endif
}

static long scan_rows(const char *query, int number)
{
    long sum = number;
    for (int row = 0; row < 200; row++)
        sum = (sum * 31 + query[row % 8]) % 65521;
    return sum;
}

static void *serve(void *argument)
{
    struct connection *connection = argument;
    for (int number = 0; number < QUERIES; number++) {
        snprintf(connection->query, sizeof connection->query, "SELECT %d FROM t%d", number, connection->id);
        set_status(connection, "Sending data");
        connection->rows += scan_rows(connection->query, number) > 0;
        AT_NUMBER("clearing", connection->id);
        set_status(connection, NULL);
        AT_NUMBER("cleared", connection->id);
        AT_NUMBER("going-on", connection->id);
    }
    return NULL;
}

static void list_connection(struct connection *connection, struct packet *packet)
{
    store_field(packet, "connection");
#ifdef FIXED
    pthread_mutex_lock(&connection->lock);
#endif
    if (connection->proc_info) { /* guilty: test */
        AT_NUMBER("tested", connection->id);
        store_field(packet, "state");
        AT_NUMBER("using", connection->id);
        store_field(packet, connection->proc_info); /* guilty: use */
        AT_NUMBER("used", connection->id);
    }
#ifdef FIXED
    pthread_mutex_unlock(&connection->lock);
#endif
    n_listed++;
}

static void *show_processlist(void *unused)
{
    struct packet packet = {.length = 0};
    (void)unused;
    for (int round = 0; round < 8; round++)
        for (int number = 0; number < CONNECTIONS; number++)
            list_connection(&connections[number], &packet);
    return NULL;
}

int main(void)
{
    pthread_t workers[CONNECTIONS], lister;
    long rows = 0;
    for (int number = 0; number < CONNECTIONS; number++) {
        connections[number].id = number;
        connections[number].proc_info = "login";
        pthread_mutex_init(&connections[number].lock, NULL);
    }
    for (int number = 0; number < CONNECTIONS; number++)
        pthread_create(&workers[number], NULL, serve, &connections[number]);
    pthread_create(&lister, NULL, show_processlist, NULL);
    for (int number = 0; number < CONNECTIONS; number++) {
        pthread_join(workers[number], NULL);
        rows += connections[number].rows;
    }
    pthread_join(lister, NULL);
    printf("%ld queries, %ld lines listed\n", rows, n_listed);
    return 0;
}
