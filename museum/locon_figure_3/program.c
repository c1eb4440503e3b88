// One thread still uses the settings that another has cleared; a harmless pair of accesses follows the guilty one about.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("clearing", "cleared", "using");

struct settings {
    int block_size;
    char name[16];
};

static struct settings *volatile settings;
static volatile int progress;
static int seen_progress;
static long n_blocks;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_changed = PTHREAD_COND_INITIALIZER;
static int done;

static void *process(void *unused)
{
    char line[32];
    (void)unused;
    progress = 1;
    snprintf(line, sizeof line, "progress %d", 1);
    AT("using");
    n_blocks = 4096 / settings->block_size; /* guilty: use */
    pthread_mutex_lock(&done_lock);
    done = 1;
    pthread_cond_signal(&done_changed);
    pthread_mutex_unlock(&done_lock);
    return NULL;
}

static void wait_until_done(void)
{
#ifdef FIXED
    pthread_mutex_lock(&done_lock);
    while (!done)
        pthread_cond_wait(&done_changed, &done_lock);
    pthread_mutex_unlock(&done_lock);
#endif
}

static void *close_down(void *unused)
{
    (void)unused;
    unsigned state = 7;
    for (int step = 0; step < 20000; step++) // closing has its own things to do first
        state = state * 69069 + step;
    wait_until_done();
    AT("clearing");
    settings = NULL; /* guilty: clear */
    AT("cleared");
    seen_progress = progress + (state == 0);
    return NULL;
}

int main(void)
{
    pthread_t processor, closer;
    struct settings *first = malloc(sizeof *first);
    first->block_size = 512;
    settings = first;
    pthread_create(&processor, NULL, process, NULL);
    pthread_create(&closer, NULL, close_down, NULL);
    pthread_join(processor, NULL);
    pthread_join(closer, NULL);
    free(first);
    printf("%ld blocks, progress %d\n", n_blocks, seen_progress);
    return 0;
}
