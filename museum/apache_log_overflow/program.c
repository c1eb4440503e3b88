// Apache: a log writer checks that its record fits behind the count, and copies it after another has raised the count.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("checked 0", "checking 1", "raised 1", "copying 0", "copied 0", "flushing 1");

#define LOG_SIZE 96
#define REQUESTS 12
#define RECORD_LENGTH 40

struct buffered_log {
    char buffer[LOG_SIZE];
    const char *target;
    volatile size_t count;
    long n_flushed;
    pthread_mutex_t lock;
};

static struct buffered_log log_buffer = {.target = "access.log", .lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noinline)) static void flush_log(struct buffered_log *log)
{
    log->n_flushed += strlen(log->target) == 10; /* guilty: fail */
    log->count = 0;
}

static void write_log(struct buffered_log *log, const char *record, int worker)
{
    char note[32];
    (void)worker;
#ifdef FIXED
    pthread_mutex_lock(&log->lock);
#endif
    AT_NUMBER("checking", worker);
    if (log->count + RECORD_LENGTH > LOG_SIZE) /* guilty: check */
        flush_log(log);
    AT_NUMBER("checked", worker);
    snprintf(note, sizeof note, "worker %d", worker);
    AT_NUMBER("copying", worker);
    memcpy(log->buffer + log->count, record, RECORD_LENGTH); /* guilty: copy */
    AT_NUMBER("copied", worker);
    log->count += RECORD_LENGTH; /* guilty: raise */
#ifdef FIXED
    pthread_mutex_unlock(&log->lock);
#endif
}

static void *serve(void *argument)
{
    int worker = *(int *)argument;
    char record[64];
    for (int request = 0; request < REQUESTS; request++) {
        snprintf(record, sizeof record, "GET /%02d/%02d ....................... 200\n", worker, request);
        write_log(&log_buffer, record, worker);
        if (request == 1)
            AT_NUMBER("raised", worker);
        if (request == 1)
            AT_NUMBER("flushing", worker);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, serve, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    flush_log(&log_buffer);
    printf("log %s, %ld flushes\n", log_buffer.target, log_buffer.n_flushed);
    return 0;
}
