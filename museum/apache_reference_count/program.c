// Apache 21287: dropping a reference to a cached object is an atomic decrement, and then a test for zero, and then a free.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"
#include "state.h"

SHOW_ORDER("decremented 0", "decrementing 1", "decremented 1", "testing 1", "tested 1", "testing 0");

#define OBJECTS 16
#define BODY_SIZE 4000

struct cache_object {
    volatile int refcount;
    int complete;
    char *body;
};

static struct cache_object objects[OBJECTS];
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static long n_served[2];

static void cleanup(struct cache_object *object)
{
    free(object->body); /* guilty: free */
}

static void decrement_refcount(struct cache_object *object, int thread)
{
    (void)thread;
#ifdef FIXED
    pthread_mutex_lock(&count_lock);
    int left = --object->refcount;
    pthread_mutex_unlock(&count_lock);
    if (left == 0)
        cleanup(object);
#else
    char trace[32];
    AT_NUMBER("decrementing", thread);
    __atomic_fetch_sub(&object->refcount, 1, __ATOMIC_SEQ_CST); /* guilty: decrement */
    AT_NUMBER("decremented", thread);
    snprintf(trace, sizeof trace, "%d drops", thread);
    AT_NUMBER("testing", thread);
    int unused = __atomic_load_n(&object->refcount, __ATOMIC_SEQ_CST) == 0; /* guilty: test */
    AT_NUMBER("tested", thread);
    if (unused)
        cleanup(object);
#endif
}

static void *serve(void *argument)
{
    int thread = *(int *)argument;
    READ_STATE();
    for (int number = 0; number < OBJECTS; number++) {
        struct cache_object *object = &objects[number];
        for (int byte = 0; byte < BODY_SIZE; byte += 100)
            n_served[thread] += object->complete;
        decrement_refcount(object, thread);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    (void)count_lock;
    WRITE_STATE();
    for (int number = 0; number < OBJECTS; number++)
        objects[number] = (struct cache_object){2, 1, malloc(BODY_SIZE)};
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, serve, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("served %ld\n", n_served[0] + n_served[1]);
    return 0;
}
