// Mozilla's script engine: the last user of the runtime, as it believes, destroys the table of file names that another reads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("found-first", "destroying", "destroyed", "finding-second");

#define BUCKETS 8

struct file_name {
    struct file_name *next;
    char text[24];
};

struct name_table {
    struct file_name *buckets[BUCKETS];
    int n_names;
};

static struct name_table *volatile script_filename_table;
static int n_users = 2;
static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned hash_of(const char *text)
{
    unsigned hash = 5381;
    while (*text)
        hash = hash * 33 + *text++;
    return hash % BUCKETS;
}

static struct file_name *find(struct name_table *table, const char *text)
{
    struct file_name *name = table->buckets[hash_of(text)];
    while (name && strcmp(name->text, text))
        name = name->next;
    return name;
}

static void add(struct name_table *table, const char *text)
{
    struct file_name *name = calloc(1, sizeof *name);
    unsigned bucket = hash_of(text);
    strcpy(name->text, text);
    name->next = table->buckets[bucket];
    table->buckets[bucket] = name;
    table->n_names++;
}

static void leave_runtime(void)
{
#ifdef FIXED
    pthread_mutex_lock(&runtime_lock);
    int last = --n_users == 0;
    pthread_mutex_unlock(&runtime_lock);
    if (!last)
        return;
#endif
    AT("destroying");
    free(script_filename_table);
    script_filename_table = NULL; /* guilty: destroy */
    AT("destroyed");
}

static unsigned interpret(const char *script, int steps)
{
    unsigned state = strlen(script);
    for (int step = 0; step < steps; step++)
        state = state * 1664525u + 1013904223u;
    return state;
}

static void *page_thread(void *found)
{
    *(int *)found += find(script_filename_table, "chrome.js") != NULL; /* guilty: first */
    AT("found-first");
    interpret("onload", 30);
    AT("finding-second");
    *(int *)found += find(script_filename_table, "page.js") != NULL; /* guilty: second */
#ifdef FIXED
    leave_runtime();
#endif
    return NULL;
}

static void *worker_thread(void *unused)
{
    (void)unused;
    interpret("worker", 100000);
    leave_runtime();
    return NULL;
}

int main(void)
{
    pthread_t page, worker;
    int n_found = 0;
    (void)n_users;
    (void)runtime_lock;
    script_filename_table = calloc(1, sizeof *script_filename_table);
    add(script_filename_table, "chrome.js");
    add(script_filename_table, "page.js");
    pthread_create(&page, NULL, page_thread, &n_found);
    pthread_create(&worker, NULL, worker_thread, NULL);
    pthread_join(page, NULL);
    pthread_join(worker, NULL);
    printf("%d names found\n", n_found);
    return 0;
}
