// A pointer is handed from one thread to another, by a flag, a barrier made by hand or a condition: no order of the threads is wrong,
// and the pointer is.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct job {
    int *result;
    int number;
};

static struct job *volatile handed;
static volatile int ready;
static int n_arrived;
static volatile int generation;
static int announced;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t announcement = PTHREAD_COND_INITIALIZER;

static void arrive(void)
{
    int mine = generation;
    if (__atomic_add_fetch(&n_arrived, 1, __ATOMIC_SEQ_CST) == 2)
        generation = mine + 1;
    while (generation == mine)
        sched_yield();
}

static void announce(const char *way)
{
    if (!strcmp(way, "flag"))
        ready = 1;
    if (!strcmp(way, "barrier"))
        arrive();
    pthread_mutex_lock(&lock);
    announced = 1;
    pthread_cond_signal(&announcement);
    pthread_mutex_unlock(&lock);
}

static void await(const char *way)
{
    if (!strcmp(way, "flag"))
        while (!ready)
            sched_yield();
    if (!strcmp(way, "barrier"))
        arrive();
    if (!strcmp(way, "condition")) {
        pthread_mutex_lock(&lock);
        while (!announced)
            pthread_cond_wait(&announcement, &lock);
        pthread_mutex_unlock(&lock);
    }
}

static void *make(void *way)
{
    struct job *job = malloc(sizeof *job);
    job->number = 7;
    job->result = NULL; /* guilty */
    handed = job;
    announce(way);
    return NULL;
}

static void *use(void *way)
{
    await(way);
    *handed->result = handed->number; /* crash */
    return NULL;
}

int main(int n_arguments, char **arguments)
{
    pthread_t maker, user;
    if (n_arguments != 2)
        return 2;
    pthread_create(&user, NULL, use, arguments[1]);
    pthread_create(&maker, NULL, make, arguments[1]);
    pthread_join(maker, NULL);
    pthread_join(user, NULL);
    return 0;
}
