// MySQL 3.23.56: the thread that accepts connections starts each without a database; a connection that loads a file asks for the length
// of the name all the same. Every access is under a lock: threads take part, but their order is not to blame.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define CONNECTIONS 3
#define COMMANDS 16

struct connection {
    int number;
    const char *db;
    char commands[COMMANDS][64];
    int n_commands, n_done;
    int closed;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static struct connection *connections[CONNECTIONS];
static int n_loaded;
static pthread_mutex_t loaded_lock = PTHREAD_MUTEX_INITIALIZER;

SEPARATE static void start_connection(struct connection *connection, int number)
{
    pthread_mutex_init(&connection->lock, NULL);
    pthread_cond_init(&connection->changed, NULL);
    pthread_mutex_lock(&connection->lock);
    connection->number = number;
    connection->db = NULL; /* mark: start */
    pthread_mutex_unlock(&connection->lock);
}

static void *accept_connections(void *unused)
{
    (void)unused;
    for (int number = 0; number < CONNECTIONS; number++) {
        connections[number] = malloc(sizeof *connections[number]);
        memset(connections[number], 0x5a, sizeof *connections[number]);
        connections[number]->n_commands = connections[number]->n_done = connections[number]->closed = 0;
        start_connection(connections[number], number);
    }
    return NULL;
}

SEPARATE static void load_file(const struct connection *connection, const char *table)
{
    char path[128];
    const char *database = connection->db; /* mark: load-name */
#ifdef FIXED
    if (!database) {
        puts("no database selected");
        return;
    }
#endif
    size_t length = strlen(database); /* mark: measure */
    snprintf(path, sizeof path, "%.*s/%s", (int)length, database, table);
    pthread_mutex_lock(&loaded_lock);
    n_loaded += strlen(path) > 0;
    pthread_mutex_unlock(&loaded_lock);
}

static void execute(struct connection *connection, char *command)
{
    if (strncmp(command, "use ", 4) == 0)
        connection->db = command + 4;
    else if (strncmp(command, "load ", 5) == 0)
        load_file(connection, command + 5);
}

static void *serve(void *argument)
{
    struct connection *connection = argument;
    pthread_mutex_lock(&connection->lock);
    for (;;) {
        while (connection->n_done == connection->n_commands && !connection->closed)
            pthread_cond_wait(&connection->changed, &connection->lock);
        if (connection->n_done == connection->n_commands)
            break;
        execute(connection, connection->commands[connection->n_done++]);
        pthread_cond_broadcast(&connection->changed);
    }
    pthread_mutex_unlock(&connection->lock);
    return NULL;
}

// Hands a command to its connection, and waits until it is done.
static void hand_over(struct connection *connection, const char *command)
{
    pthread_mutex_lock(&connection->lock);
    snprintf(connection->commands[connection->n_commands], sizeof connection->commands[0], "%s", command);
    connection->n_commands++;
    pthread_cond_broadcast(&connection->changed);
    while (connection->n_done != connection->n_commands)
        pthread_cond_wait(&connection->changed, &connection->lock);
    pthread_mutex_unlock(&connection->lock);
}

static void close_connection(struct connection *connection)
{
    pthread_mutex_lock(&connection->lock);
    connection->closed = 1;
    pthread_cond_broadcast(&connection->changed);
    pthread_mutex_unlock(&connection->lock);
}

int main(void)
{
    pthread_t acceptor, servers[CONNECTIONS];
    int number;
    char command[64];
    pthread_create(&acceptor, NULL, accept_connections, NULL);
    pthread_join(acceptor, NULL);
    for (number = 0; number < CONNECTIONS; number++)
        pthread_create(&servers[number], NULL, serve, connections[number]);
    while (scanf("%d %63[^\n]", &number, command) == 2)
        hand_over(connections[(number + CONNECTIONS - 1) % CONNECTIONS], command);
    for (number = 0; number < CONNECTIONS; number++) {
        close_connection(connections[number]);
        pthread_join(servers[number], NULL);
    }
    printf("%d files loaded\n", n_loaded);
    return 0;
}
