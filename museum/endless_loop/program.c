// Two workers go on until the number of finished pages is the total; counted past it, they go on for ever.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("looked 0", "looking 1", "finished 1", "counting 0");

#define PAGES 24
#define WORKERS 2

static atomic_uint n_finished;
static atomic_uint ink;

static int pages_are_left(void)
{
#ifdef FIXED
    return atomic_load(&n_finished) < PAGES;
#else
    return atomic_load(&n_finished) != PAGES; /* guilty: look */
#endif
}

static void print_page(unsigned page)
{
    unsigned drops = 0;
    for (unsigned line = 0; line < 60; line++)
        drops += (line ^ page) & 1;
    atomic_fetch_add(&ink, drops > 0);
}

static void *print_pages(void *argument)
{
    int self = *(int *)argument;
    (void)self;
    AT_NUMBER("looking", self);
    while (pages_are_left()) {
        AT_NUMBER("looked", self);
        print_page(atomic_load(&n_finished));
        AT_NUMBER("counting", self);
        atomic_fetch_add(&n_finished, 1); /* guilty: count */
    }
    AT_NUMBER("finished", self);
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS];
    int numbers[WORKERS];
    for (int number = 0; number < WORKERS; number++) {
        numbers[number] = number;
        pthread_create(&workers[number], NULL, print_pages, &numbers[number]);
    }
    for (int number = 0; number < WORKERS; number++)
        pthread_join(workers[number], NULL);
    printf("%s\n", ink >= PAGES ? "all pages printed" : "pages are missing");
    return 0;
}
