// A duplicate ticket, drawn without a lock, travels through two locked queues and three threads before it does harm.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("drawn 0", "drawing 1", "kept 1", "keeping 0");

#define PER_CLERK 10
#define TICKETS (2 * PER_CLERK)

struct queue {
    int items[TICKETS];
    int head, tail;
    pthread_mutex_t lock;
    pthread_cond_t filled;
};

struct seat {
    int row, number;
};

static volatile int next_ticket;
static pthread_mutex_t ticket_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue sold = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
static struct queue printed = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
static struct seat *seats[TICKETS + 1];
static long n_seated;

static void put(struct queue *queue, int item)
{
    pthread_mutex_lock(&queue->lock);
    queue->items[queue->tail++] = item;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

static int get(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->head == queue->tail)
        pthread_cond_wait(&queue->filled, &queue->lock);
    int item = queue->items[queue->head++];
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static int draw_ticket(int clerk)
{
    char stub[24];
    (void)clerk;
#ifdef FIXED
    pthread_mutex_lock(&ticket_lock);
#endif
    AT_NUMBER("drawing", clerk);
    int ticket = next_ticket; /* guilty: draw */
    AT_NUMBER("drawn", clerk);
    snprintf(stub, sizeof stub, "ticket %d", ticket);
    AT_NUMBER("keeping", clerk);
    next_ticket = ticket + 1; /* guilty: keep */
    AT_NUMBER("kept", clerk);
#ifdef FIXED
    pthread_mutex_unlock(&ticket_lock);
#endif
    return ticket;
}

static void *sell(void *argument)
{
    for (int number = 0; number < PER_CLERK; number++)
        put(&sold, draw_ticket(*(int *)argument));
    return NULL;
}

static void *print_tickets(void *unused)
{
    (void)unused;
    for (int number = 0; number < TICKETS; number++) {
        int ticket = get(&sold);
        put(&printed, ticket);
    }
    return NULL;
}

static void *usher(void *unused)
{
    (void)unused;
    for (int number = 0; number < TICKETS; number++) {
        int ticket = get(&printed);
        struct seat *seat = seats[ticket];
        n_seated += seat->row * 10 + seat->number > 0; /* guilty: fail */
        seats[ticket] = NULL;
        free(seat);
    }
    return NULL;
}

int main(void)
{
    pthread_t clerks[2], printer, usherer;
    int numbers[2] = {0, 1};
    (void)ticket_lock;
    for (int number = 0; number < TICKETS; number++) {
        seats[number] = malloc(sizeof **seats);
        *seats[number] = (struct seat){number / 5 + 1, number % 5};
    }
    pthread_create(&usherer, NULL, usher, NULL);
    pthread_create(&printer, NULL, print_tickets, NULL);
    for (int number = 0; number < 2; number++)
        pthread_create(&clerks[number], NULL, sell, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(clerks[number], NULL);
    pthread_join(printer, NULL);
    pthread_join(usherer, NULL);
    printf("%ld seated\n", n_seated);
    return 0;
}
