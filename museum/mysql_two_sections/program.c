// MySQL: a table's open share is tested in one critical section and used in the next one; a flush clears it in between.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("tested 0", "flushing", "flushed", "using 0", "used 0", "reopening");

#define QUERIES 16
#define FLUSHES 4

struct share {
    int n_columns;
    char name[16];
};

static struct share *open_share;
static long n_rows, n_flushes;
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t query_lock = PTHREAD_MUTEX_INITIALIZER;

static int table_is_open(void)
{
    pthread_mutex_lock(&open_lock);
    int open = open_share != NULL; /* guilty: test */
    pthread_mutex_unlock(&open_lock);
    return open;
}

static void read_row(void)
{
    pthread_mutex_lock(&open_lock);
    n_rows += open_share->n_columns; /* guilty: use */
    pthread_mutex_unlock(&open_lock);
}

static void set_share(struct share *share)
{
    pthread_mutex_lock(&open_lock);
    open_share = share; /* guilty: clear */
    pthread_mutex_unlock(&open_lock);
}

static void *query(void *unused)
{
    (void)unused;
    for (int number = 0; number < QUERIES; number++) {
#ifdef FIXED
        pthread_mutex_lock(&query_lock);
#endif
        if (table_is_open()) {
            AT_NUMBER("tested", number);
            AT_NUMBER("using", number);
            read_row();
            AT_NUMBER("used", number);
        }
#ifdef FIXED
        pthread_mutex_unlock(&query_lock);
#endif
    }
    return NULL;
}

static struct share *open_table(void)
{
    struct share *share = malloc(sizeof *share);
    share->n_columns = 3;
    snprintf(share->name, sizeof share->name, "orders");
    return share;
}

static void *flush_tables(void *unused)
{
    (void)unused;
    for (int number = 0; number < FLUSHES; number++) {
#ifdef FIXED
        pthread_mutex_lock(&query_lock);
#endif
        struct share *old = open_share;
        AT("flushing");
        set_share(NULL);
        AT("flushed");
        free(old);
        AT("reopening");
        set_share(open_table());
        n_flushes++;
#ifdef FIXED
        pthread_mutex_unlock(&query_lock);
#endif
    }
    return NULL;
}

int main(void)
{
    pthread_t reader, flusher;
    (void)query_lock;
    set_share(open_table());
    pthread_create(&reader, NULL, query, NULL);
    pthread_create(&flusher, NULL, flush_tables, NULL);
    pthread_join(reader, NULL);
    pthread_join(flusher, NULL);
    printf("%d queries, %ld flushes\n", QUERIES, n_flushes);
    return 0;
}
