// A statistics counter that nobody locked is later used to decide whether all clients have come. It only counts up, so no lost
// update makes up for another.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("read 0", "entering 1", "entered 1", "storing 0", "stored 0", "going-in 1");

#define CLIENTS 4
#define VISITS 10
#define SLOTS 4

static volatile int n_clients;
static int slots[SLOTS];
static int n_refused, n_visits;
static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_client(int client)
{
    char line[32];
#ifdef FIXED
    pthread_mutex_lock(&count_lock);
#endif
    int count = n_clients; /* guilty: read */
    AT_NUMBER("read", client);
    snprintf(line, sizeof line, "client %d, %d before", client, count);
    AT_NUMBER("storing", client);
    n_clients = count + 1; /* guilty: store */
    AT_NUMBER("stored", client);
#ifdef FIXED
    pthread_mutex_unlock(&count_lock);
#endif
}

static int take_slot(void)
{
    int slot = 0;
    pthread_mutex_lock(&slot_lock);
    while (slot < SLOTS && slots[slot])
        slot++;
    if (slot < SLOTS)
        slots[slot] = 1;
    n_refused += slot == SLOTS;
    n_visits++;
    pthread_mutex_unlock(&slot_lock);
    return slot;
}

static void give_slot(int slot)
{
    pthread_mutex_lock(&slot_lock);
    slots[slot] = 0;
    pthread_mutex_unlock(&slot_lock);
}

static void *visit(void *argument)
{
    int client = *(int *)argument;
    for (int number = 0; number < VISITS; number++) {
        AT_NUMBER("entering", client);
        count_client(client);
        AT_NUMBER("entered", client);
        AT_NUMBER("going-in", client);
        int slot = take_slot();
        if (slot < SLOTS)
            give_slot(slot);
    }
    return NULL;
}

static void admit_last(void)
{
    if (n_clients < CLIENTS * VISITS) { /* guilty: decide */
        printf("only %d clients are said to have come\n", n_clients);
        exit(4);
    }
}

int main(void)
{
    pthread_t clients[CLIENTS];
    int numbers[CLIENTS];
    (void)count_lock;
    for (int number = 0; number < CLIENTS; number++) {
        numbers[number] = number;
        pthread_create(&clients[number], NULL, visit, &numbers[number]);
    }
    for (int number = 0; number < CLIENTS; number++)
        pthread_join(clients[number], NULL);
    admit_last();
    printf("%d visits, %d refused\n", n_visits, n_refused);
    return 0;
}
