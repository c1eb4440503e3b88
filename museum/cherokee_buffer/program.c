// Cherokee: threads append to one string buffer under a reader-writer lock, but take it for reading only.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("copied 0", "copying 1", "grown 1", "growing 0");

#define THREADS 3
#define MESSAGES 8

struct buffer {
    char text[2048];
    volatile unsigned length;
    pthread_rwlock_t lock;
};

static struct buffer buffer = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static void add(struct buffer *to, const char *text, int thread)
{
    unsigned size = strlen(text);
    (void)thread;
#ifdef FIXED
    pthread_rwlock_wrlock(&to->lock);
#else
    pthread_rwlock_rdlock(&to->lock);
#endif
    AT_NUMBER("copying", thread);
    for (unsigned byte = 0; byte < size; byte++)
        to->text[to->length + byte] = text[byte]; /* guilty: copy */
    AT_NUMBER("copied", thread);
    AT_NUMBER("growing", thread);
    to->length += size; /* guilty: grow */
    AT_NUMBER("grown", thread);
    pthread_rwlock_unlock(&to->lock);
}

static void *report(void *argument)
{
    int thread = *(int *)argument;
    char message[32];
    for (int number = 0; number < MESSAGES; number++) {
        snprintf(message, sizeof message, "[thread %d: %02d]", thread, number);
        add(&buffer, message, thread);
    }
    return NULL;
}

static int count_messages(const struct buffer *whole)
{
    int n_messages = 0, thread, number, end;
    for (const char *at = whole->text; *at; at += end, n_messages++) {
        end = 0;
        if (sscanf(at, "[thread %d: %d]%n", &thread, &number, &end) != 2 || end == 0)
            return -1;
    }
    return n_messages;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, report, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    if (count_messages(&buffer) != THREADS * MESSAGES) {
        puts("messages are mixed up");
        return 1;
    }
    printf("%d messages, %u bytes\n", THREADS * MESSAGES, buffer.length);
    return 0;
}
