// Apache 25520: request threads append records to one buffered log without a lock: copy at the count, then add to the count.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("copied 0", "adding 1", "added 1", "adding 0");

#define WORKERS 4
#define REQUESTS 3 // of each, in a burst
#define BUFFER_SIZE 4096

struct buffered_log {
    char outbuf[BUFFER_SIZE];
    size_t outcnt;
    pthread_mutex_t lock;
};

static struct buffered_log access_log;
enum { BURSTS = 2 };
__attribute__((noinline)) static void copy_record(char *to, const char *record, size_t length)
{
    memcpy(to, record, length); /* guilty: copy */
}

static void buffered_log_writer(struct buffered_log *log, const char *record, int worker)
{
    size_t length = strlen(record);
    (void)worker;
#ifdef FIXED
    pthread_mutex_lock(&log->lock);
#endif
    copy_record(&log->outbuf[log->outcnt], record, length); /* guilty: place */
    AT_NUMBER("copied", worker);
    AT_NUMBER("adding", worker);
    log->outcnt += length; /* guilty: add */
    AT_NUMBER("added", worker);
#ifdef FIXED
    pthread_mutex_unlock(&log->lock);
#endif
}

static unsigned handle_request(int worker, int request)
{
    unsigned hash = worker * 7 + request;
    for (int byte = 0; byte < 3000; byte++)
        hash = hash * 33 + byte;
    return hash;
}

static int burst;

static void *serve(void *argument)
{
    int worker = *(int *)argument;
    char record[64];
    for (int request = burst * REQUESTS; request < (burst + 1) * REQUESTS; request++) {
        unsigned size = handle_request(worker, request) % 9000 + 1000;
        snprintf(record, sizeof record, "GET /%d/%d 200 %u\n", worker, request, size);
        buffered_log_writer(&access_log, record, worker);
    }
    return NULL;
}

/* Writes the buffer out, so that it can be used again; tells how many whole records there are, of which none came before. */
static int flush_log(struct buffered_log *log)
{
    static int n_seen[WORKERS][BURSTS * REQUESTS];
    int n_whole = 0, end = 0;
    log->outbuf[log->outcnt] = 0;
    for (const char *line = log->outbuf; *line; line += end) {
        unsigned worker, request, size;
        if (sscanf(line, "GET /%u/%u 200 %u\n%n", &worker, &request, &size, &end) != 3 || worker >= WORKERS ||
            request >= BURSTS * REQUESTS || n_seen[worker][request]++ > 0)
            return -1;
        n_whole++;
    }
    log->outcnt = 0;
    return n_whole;
}

int main(void)
{
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    pthread_mutex_init(&access_log.lock, NULL);
    for (burst = 0; burst < BURSTS; burst++) {
        for (int number = 0; number < WORKERS; number++) {
            numbers[number] = number;
            pthread_create(&threads[number], NULL, serve, &numbers[number]);
        }
        for (int number = 0; number < WORKERS; number++)
            pthread_join(threads[number], NULL);
        int n_whole = flush_log(&access_log);
        if (n_whole != WORKERS * REQUESTS) {
            printf("corrupt log: %d whole records\n", n_whole);
            return 1;
        }
    }
    printf("%d records\n", BURSTS * WORKERS * REQUESTS);
    return 0;
}
