// Tracing is switched on before its buffer is there; only then does a worker execute the code that needs the buffer.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("switched-on", "tracing", "traced", "giving-buffer");

#define STEPS 60

struct trace_buffer {
    int n_lines;
    char lines[16][32];
};

static volatile int tracing;
static struct trace_buffer *volatile trace;
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned state = 1;

static void trace_step(int step)
{
    struct trace_buffer *buffer = trace; /* guilty: use */
    snprintf(buffer->lines[buffer->n_lines++ % 16], 32, "step %d", step);
}

static void *work(void *unused)
{
    (void)unused;
    for (int step = 0; step < STEPS; step++) {
        for (int round = 0; round < 10; round++)
            state = state * 1103515245u + 12345u;
        AT("tracing");
#ifdef FIXED
        pthread_mutex_lock(&trace_lock);
#endif
        if (tracing) /* guilty: test */
            trace_step(step);
#ifdef FIXED
        pthread_mutex_unlock(&trace_lock);
#endif
        AT("traced");
    }
    return NULL;
}

static void *switch_on(void *unused)
{
    (void)unused;
#ifdef FIXED
    pthread_mutex_lock(&trace_lock);
#endif
    tracing = 1; /* guilty: switch-on */
    AT("switched-on");
    AT("giving-buffer");
    trace = calloc(1, sizeof *trace); /* guilty: give-buffer */
#ifdef FIXED
    pthread_mutex_unlock(&trace_lock);
#endif
    return NULL;
}

int main(void)
{
    pthread_t worker, control;
    (void)trace_lock;
    pthread_create(&worker, NULL, work, NULL);
    pthread_create(&control, NULL, switch_on, NULL);
    pthread_join(worker, NULL);
    pthread_join(control, NULL);
    printf("state %08x, tracing %s\n", state, tracing && trace ? "on" : "off");
    return 0;
}
