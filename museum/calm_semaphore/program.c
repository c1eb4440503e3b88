// Messages are handed over through one unlocked slot; two semaphores say whose it is.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define MESSAGES 40

struct message {
    int number;
    char text[32];
};

static struct message slot;
static sem_t full, empty;

static void *send(void *unused)
{
    (void)unused;
    for (int number = 0; number < MESSAGES; number++) {
        sem_wait(&empty);
        slot.number = number;
        snprintf(slot.text, sizeof slot.text, "message %d", number);
        sem_post(&full);
    }
    return NULL;
}

static void *receive(void *letters)
{
    for (int number = 0; number < MESSAGES; number++) {
        sem_wait(&full);
        for (const char *at = slot.text; *at; at++)
            ++*(long *)letters;
        *(long *)letters += 1000 * (slot.number != number);
        sem_post(&empty);
    }
    return NULL;
}

int main(void)
{
    pthread_t sender, receiver;
    long n_letters = 0;
    sem_init(&full, 0, 0);
    sem_init(&empty, 0, 1);
    pthread_create(&sender, NULL, send, NULL);
    pthread_create(&receiver, NULL, receive, &n_letters);
    pthread_join(sender, NULL);
    pthread_join(receiver, NULL);
    printf("%ld letters\n", n_letters);
    return 0;
}
