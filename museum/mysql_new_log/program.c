// MySQL: the log's file name and its state are changed one after the other, and a reader that sees the old name trusts the state.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("name-tested", "changing", "log-changed", "log-tested");

#define OLD_NAME "binlog.000001"
#define MAGIC "open"

static char file_name[32] = OLD_NAME;
static char current_log[32] = MAGIC;
static pthread_mutex_t rotate_lock = PTHREAD_MUTEX_INITIALIZER;
static long n_bytes;

__attribute__((noinline)) static int same(const char *left, const char *right)
{
    return strcmp(left, right) == 0;
}

__attribute__((noinline)) static void set(char *variable, const char *value)
{
    strcpy(variable, value);
}

__attribute__((noinline)) static void dump_event(int number)
{
    for (int byte = 0; byte < 20; byte++)
        n_bytes += (number ^ byte) & 1;
}

static void check_log(void)
{
#ifdef FIXED
    pthread_mutex_lock(&rotate_lock);
#endif
    if (same(file_name, OLD_NAME)) { /* guilty: test-name */
        AT("name-tested");
        AT("log-tested");
        if (!same(current_log, MAGIC)) { /* guilty: test-log */
            fprintf(stderr, "the log is not what its name says\n");
            exit(3);
        }
    }
#ifdef FIXED
    pthread_mutex_unlock(&rotate_lock);
#endif
}

static void *dump(void *unused)
{
    (void)unused;
    for (int number = 0; number < 20; number++) {
        dump_event(number);
        check_log();
    }
    return NULL;
}

static void *rotate(void *unused)
{
    (void)unused;
#ifdef FIXED
    pthread_mutex_lock(&rotate_lock);
#endif
    AT("changing");
    set(file_name, "binlog.000002"); /* guilty: new-name */
    set(current_log, "fresh");       /* guilty: new-log */
    AT("log-changed");
#ifdef FIXED
    pthread_mutex_unlock(&rotate_lock);
#endif
    return NULL;
}

int main(void)
{
    pthread_t dumper, rotator;
    (void)rotate_lock;
    pthread_create(&dumper, NULL, dump, NULL);
    pthread_create(&rotator, NULL, rotate, NULL);
    pthread_join(dumper, NULL);
    pthread_join(rotator, NULL);
    printf("%s, %s, %ld\n", file_name, current_log, n_bytes);
    return 0;
}
