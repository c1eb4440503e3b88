// MySQL 791: while the binary log is closed and opened again, its state is briefly "closed", and a client drops its entry.
#include <pthread.h>
#include <stdio.h>

#include "show.h"
#include "state.h"

SHOW_ORDER("closed", "looking 1", "looked 1", "opening");

#define CLIENTS 3
#define QUERIES 8
#define ROTATIONS 6

enum log_state { LOG_CLOSED, LOG_OPENED };

struct binary_log {
    volatile enum log_state state;
    char name[32];
    int n_files;
    int n_entries;
    pthread_mutex_t lock;
};

static struct binary_log binlog = {LOG_OPENED, "binlog.000001", 1, 0, PTHREAD_MUTEX_INITIALIZER};

static void new_file(struct binary_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->state = LOG_CLOSED; /* guilty: close */
    AT("closed");
    snprintf(log->name, sizeof log->name, "binlog.%06d", ++log->n_files);
    AT("opening");
    log->state = LOG_OPENED; /* guilty: open */
    pthread_mutex_unlock(&log->lock);
}

static int is_open(struct binary_log *log)
{
#ifdef FIXED
    pthread_mutex_lock(&log->lock);
#endif
    int open = log->state == LOG_OPENED; /* guilty: look */
#ifdef FIXED
    pthread_mutex_unlock(&log->lock);
#endif
    return open;
}

static void write_entry(struct binary_log *log, int client)
{
    (void)client;
    AT_NUMBER("looking", client);
    int open = is_open(log);
    AT_NUMBER("looked", client);
    if (!open)
        return;
    pthread_mutex_lock(&log->lock);
    log->n_entries++;
    pthread_mutex_unlock(&log->lock);
}

static void *serve(void *argument)
{
    char query[64];
    READ_STATE();
    for (int number = 0; number < QUERIES; number++) {
        snprintf(query, sizeof query, "INSERT INTO t VALUES (%d)", number);
        write_entry(&binlog, *(int *)argument);
    }
    return NULL;
}

static void *rotate(void *unused)
{
    (void)unused;
    for (int number = 0; number < ROTATIONS; number++)
        new_file(&binlog);
    return NULL;
}

int main(void)
{
    pthread_t clients[CLIENTS], rotator;
    int numbers[CLIENTS];
    WRITE_STATE();
    for (int number = 0; number < CLIENTS; number++) {
        numbers[number] = number;
        pthread_create(&clients[number], NULL, serve, &numbers[number]);
    }
    pthread_create(&rotator, NULL, rotate, NULL);
    for (int number = 0; number < CLIENTS; number++)
        pthread_join(clients[number], NULL);
    pthread_join(rotator, NULL);
    if (binlog.n_entries != CLIENTS * QUERIES) {
        printf("%d entries are missing from the log\n", CLIENTS * QUERIES - binlog.n_entries);
        return 1;
    }
    printf("%d entries, %s\n", binlog.n_entries, binlog.name);
    return 0;
}
