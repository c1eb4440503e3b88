// ctrace: two threads both find the library initialised and both clean it up.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("tested 0", "testing 1", "cleaned 1", "cleaning 0");

#define BUFFER_SIZE 5000

static volatile int initialized;
static char *trace_buffer;
static long n_lines;
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static void trc_init(void)
{
    trace_buffer = malloc(BUFFER_SIZE);
    initialized = 1;
}

static void trc_end(int thread)
{
    char line[32];
#ifdef FIXED
    pthread_mutex_lock(&init_lock);
#endif
    AT_NUMBER("testing", thread);
    if (initialized) { /* guilty: test */
        AT_NUMBER("tested", thread);
        snprintf(line, sizeof line, "thread %d ends", thread);
        AT_NUMBER("cleaning", thread);
        free(trace_buffer); /* guilty: free */
        initialized = 0;    /* guilty: clear */
        AT_NUMBER("cleaned", thread);
    }
#ifdef FIXED
    pthread_mutex_unlock(&init_lock);
#endif
}

static void trc_line(void)
{
    pthread_mutex_lock(&line_lock);
    n_lines++;
    pthread_mutex_unlock(&line_lock);
}

static void *work(void *argument)
{
    for (int line = 0; line < 20; line++)
        trc_line();
    trc_end(*(int *)argument);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    (void)init_lock;
    trc_init();
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, work, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("%ld lines\n", n_lines);
    return 0;
}
