// ctrace: the trace id is counted under a lock, but tested against the table's size and used as an index without it.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("reached", "starting", "tested", "counting", "counted", "storing");

#define MAX_ID 32
#define EVENTS 40

static struct {
    const char *names[MAX_ID];
    const char *after[EVENTS]; // what an overflow hits
} table;

static volatile int id;
static pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_events;

static void *count_ids(void *unused)
{
    (void)unused;
    for (int event = 0; event < EVENTS; event++) {
        pthread_mutex_lock(&id_lock);
        if (event == MAX_ID - 1) {
            AT("reached");
            AT("counting");
        }
        id++; /* guilty: count */
        if (event == MAX_ID - 1)
            AT("counted");
        pthread_mutex_unlock(&id_lock);
    }
    return NULL;
}

static void record_event(void)
{
    char name[24];
#ifdef FIXED
    pthread_mutex_lock(&id_lock);
#endif
    if (id < MAX_ID) { /* guilty: test */
        AT("tested");
        snprintf(name, sizeof name, "event %d", n_events);
        AT("storing");
        table.names[id] = "event"; /* guilty: store */
    }
#ifdef FIXED
    pthread_mutex_unlock(&id_lock);
#endif
    n_events++;
}

static void *trace(void *unused)
{
    (void)unused;
    AT("starting");
    for (int event = 0; event < EVENTS; event++)
        record_event();
    return NULL;
}

int main(void)
{
    pthread_t counter, tracer;
    pthread_create(&tracer, NULL, trace, NULL);
    pthread_create(&counter, NULL, count_ids, NULL);
    pthread_join(counter, NULL);
    pthread_join(tracer, NULL);
    for (int number = 0; number < EVENTS; number++)
        if (table.after[number]) {
            puts("the table has overflowed");
            return 1;
        }
    printf("%d events\n", n_events);
    return 0;
}
