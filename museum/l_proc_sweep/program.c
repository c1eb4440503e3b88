// A log processor: entries are added through a shared pointer, and a sweeper replaces the log by a fresh one now and then.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("tested", "sweeping", "swept", "adding", "added", "renewing");

#define ENTRIES 64
#define SWEEPS 20

struct log {
    int entries[ENTRIES];
    int n_entries;
    struct log *older;
};

static struct log *volatile current_log;
static struct log *swept_logs;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static struct log *new_log(void)
{
    return calloc(1, sizeof(struct log));
}

__attribute__((noinline)) static int format_entry(int number)
{
    int code = number;
    for (int step = 0; step < 40; step++)
        code = (code * 5 + 1) & 0xffff;
    return code;
}

__attribute__((noinline)) static void add_entry(struct log *log, int entry)
{
    log->entries[log->n_entries++ % ENTRIES] = entry;
}

static void *process(void *unused)
{
    (void)unused;
    for (int number = 0; number < 60; number++) {
#ifdef FIXED
        pthread_mutex_lock(&log_lock);
#endif
        if (current_log) { /* guilty: test */
            AT("tested");
            int entry = format_entry(number);
            AT("adding");
            add_entry(current_log, entry); /* guilty: use */
            AT("added");
        }
#ifdef FIXED
        pthread_mutex_unlock(&log_lock);
#endif
    }
    return NULL;
}

static void sweep(void)
{
#ifdef FIXED
    pthread_mutex_lock(&log_lock);
#endif
    struct log *old = current_log;
    AT("sweeping");
    current_log = NULL; /* guilty: clear */
    AT("swept");
    AT("renewing");
    old->older = swept_logs;
    swept_logs = old;
    current_log = new_log();
#ifdef FIXED
    pthread_mutex_unlock(&log_lock);
#endif
}

static void *sweep_all(void *unused)
{
    (void)unused;
    for (int number = 0; number < SWEEPS; number++)
        sweep();
    return NULL;
}

int main(void)
{
    pthread_t processor, sweeper;
    int n_logs = 0;
    (void)log_lock;
    current_log = new_log();
    pthread_create(&processor, NULL, process, NULL);
    pthread_create(&sweeper, NULL, sweep_all, NULL);
    pthread_join(processor, NULL);
    pthread_join(sweeper, NULL);
    for (struct log *log = swept_logs; log; log = log->older)
        n_logs++;
    printf("%d logs swept\n", n_logs);
    return 0;
}
