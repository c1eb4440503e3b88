// A pointer is NULL for a moment, but only inside the critical section that gives it a fresh value before it ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WRITERS 2
#define ENTRIES 20

struct page {
    int n_lines;
    int lines[8];
};

static struct page *current_page;
static int n_pages;
static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;

static void turn_page(void)
{
    free(current_page);
    current_page = NULL;
    n_pages++;
    current_page = calloc(1, sizeof *current_page);
}

static void *write_lines(void *argument)
{
    for (int line = 0; line < ENTRIES; line++) {
        pthread_mutex_lock(&page_lock);
        if (current_page->n_lines == 8)
            turn_page();
        current_page->lines[current_page->n_lines++] = line + *(int *)argument;
        pthread_mutex_unlock(&page_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t writers[WRITERS];
    int numbers[WRITERS] = {100, 200};
    current_page = calloc(1, sizeof *current_page);
    for (int number = 0; number < WRITERS; number++)
        pthread_create(&writers[number], NULL, write_lines, &numbers[number]);
    for (int number = 0; number < WRITERS; number++)
        pthread_join(writers[number], NULL);
    printf("%d full pages, %d lines on the last\n", n_pages, current_page->n_lines);
    free(current_page);
    return 0;
}
