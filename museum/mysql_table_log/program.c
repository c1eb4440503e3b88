// MySQL 169: a change to the table and its record in the log are each locked, but not together.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("deleted", "inserting", "insert-logged", "delete-logging");

#define ROWS 32
#define NEW_ROW 99

enum statement { DELETE_ALL, INSERT };

static int table_rows[ROWS];
static int n_rows;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    enum statement kind;
    int row;
} binlog[2 * ROWS];
static int n_logged;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t statement_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_statement(enum statement kind, int row)
{
    pthread_mutex_lock(&log_lock);
    binlog[n_logged].kind = kind;
    binlog[n_logged++].row = row; /* guilty: log */
    pthread_mutex_unlock(&log_lock);
}

static void begin_statement(void)
{
#ifdef FIXED
    pthread_mutex_lock(&statement_lock);
#endif
}

static void end_statement(void)
{
#ifdef FIXED
    pthread_mutex_unlock(&statement_lock);
#endif
}

static void *delete_all(void *unused)
{
    (void)unused;
    begin_statement();
    pthread_mutex_lock(&table_lock);
    memset(table_rows, 0, sizeof table_rows);
    n_rows = 0; /* guilty: delete */
    pthread_mutex_unlock(&table_lock);
    AT("deleted");
    AT("delete-logging");
    log_statement(DELETE_ALL, 0);
    end_statement();
    return NULL;
}

static void *insert(void *argument)
{
    int row = *(int *)argument;
    if (row == NEW_ROW)
        AT("inserting");
    begin_statement();
    pthread_mutex_lock(&table_lock);
    table_rows[n_rows++] = row; /* guilty: insert */
    pthread_mutex_unlock(&table_lock);
    log_statement(INSERT, row);
    if (row == NEW_ROW)
        AT("insert-logged");
    end_statement();
    return NULL;
}

static int rows_after_replay(void)
{
    int n_replayed = 0;
    for (int number = 0; number < n_logged; number++)
        n_replayed = binlog[number].kind == DELETE_ALL ? 0 : n_replayed + 1;
    return n_replayed;
}

int main(void)
{
    pthread_t deleter, inserter;
    int new_row = NEW_ROW;
    (void)statement_lock;
    for (int row = 0; row < 16; row++)
        insert(&row);
    pthread_create(&deleter, NULL, delete_all, NULL);
    pthread_create(&inserter, NULL, insert, &new_row);
    pthread_join(deleter, NULL);
    pthread_join(inserter, NULL);
    if (rows_after_replay() != n_rows) {
        printf("the log gives %d rows, the table has %d\n", rows_after_replay(), n_rows);
        return 1;
    }
    printf("%d statements logged, log and table agree\n", n_logged);
    return 0;
}
