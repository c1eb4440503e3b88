// A lock-free stack of buffers: between a pop's read of the head and its exchange, the head goes away and comes back.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("read 0", "taking 1", "returned 1", "exchanging 0", "exchanged 0", "going-on 1");

#define BUFFERS 6
#define ROUNDS 30

struct buffer {
    _Atomic(struct buffer *) next;
    atomic_int n_holders;
};

static struct buffer buffers[BUFFERS];
static _Atomic(struct buffer *) head;
static pthread_mutex_t stack_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_stack(void)
{
#ifdef FIXED
    pthread_mutex_lock(&stack_lock);
#endif
}

static void unlock_stack(void)
{
#ifdef FIXED
    pthread_mutex_unlock(&stack_lock);
#endif
}

static struct buffer *pop(int thread)
{
    char trace[32];
    lock_stack();
    struct buffer *top, *next;
    do {
        top = atomic_load(&head);        /* guilty: read */
        next = atomic_load(&top->next);
        AT_NUMBER("read", thread);
        snprintf(trace, sizeof trace, "pop by %d", thread);
        AT_NUMBER("exchanging", thread);
    } while (!atomic_compare_exchange_strong(&head, &top, next)); /* guilty: exchange */
    AT_NUMBER("exchanged", thread);
    unlock_stack();
    return top;
}

static void push(struct buffer *buffer)
{
    lock_stack();
    struct buffer *top = atomic_load(&head);
    do
        atomic_store(&buffer->next, top);
    while (!atomic_compare_exchange_strong(&head, &top, buffer)); /* guilty: return */
    unlock_stack();
}

static void hold(struct buffer *buffer)
{
    if (atomic_fetch_add(&buffer->n_holders, 1) != 0) {
        fprintf(stderr, "two threads hold one buffer\n");
        abort();
    }
}

static void release(struct buffer *buffer)
{
    atomic_fetch_sub(&buffer->n_holders, 1);
    push(buffer);
}

static void *use_one(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        struct buffer *buffer = pop(0);
        hold(buffer);
        release(buffer);
    }
    return NULL;
}

static void *use_two(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        AT_NUMBER("taking", 1);
        struct buffer *first = pop(1), *second = pop(1);
        hold(first);
        hold(second);
        release(first);
        AT_NUMBER("returned", 1);
        AT_NUMBER("going-on", 1);
        struct buffer *third = pop(1), *fourth = pop(1);
        hold(third);
        hold(fourth);
        release(fourth);
        release(third);
        release(second);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int n_free = 0;
    (void)stack_lock;
    for (int number = 0; number < BUFFERS; number++)
        push(&buffers[number]);
    pthread_create(&threads[0], NULL, use_one, NULL);
    pthread_create(&threads[1], NULL, use_two, NULL);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    for (struct buffer *buffer = head; buffer && n_free <= BUFFERS; buffer = buffer->next)
        n_free++;
    if (n_free != BUFFERS)
        abort();
    printf("%d buffers free\n", n_free);
    return 0;
}
