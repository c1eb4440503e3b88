// A consumer takes an item whenever its wait for a semaphore is over, also if a signal is why.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define ITEMS 6

static sem_t n_full, n_empty;
static volatile int slot, n_reloads, n_wrong;

static void reload(int signal)
{
    (void)signal;
    n_reloads++;
}

static void wait_for(sem_t *semaphore)
{
#ifdef FIXED
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        ;
#else
    sem_wait(semaphore); /* guilty: wait */
#endif
}

static void *consume(void *unused)
{
    for (int item = 1; item <= ITEMS; item++) {
        wait_for(&n_full);
        n_wrong += slot != item; /* guilty: take */
        sem_post(&n_empty);
    }
    return unused;
}

#ifdef SHOW
/* Signals keep coming while the consumer waits for an item that is not there. */
static void disturb(pthread_t consumer)
{
    for (int n_signals = 0; n_signals < 100 && n_wrong == 0; n_signals++) {
        pthread_kill(consumer, SIGUSR1);
        usleep(1000);
    }
}
#endif

int main(void)
{
    struct sigaction action = {.sa_handler = reload};
    pthread_t consumer;
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&n_full, 0, 0);
    sem_init(&n_empty, 0, 1);
    if (pthread_create(&consumer, NULL, consume, NULL) != 0)
        return 2;
#ifdef SHOW
    disturb(consumer);
#endif
    for (int item = 1; item <= ITEMS; item++) {
        while (sem_wait(&n_empty) != 0)
            ;
        slot = item;
        sem_post(&n_full);
    }
    pthread_join(consumer, NULL);
    if (n_wrong != 0)
        return 1;
    printf("%d items taken\n", ITEMS);
    return 0;
}
