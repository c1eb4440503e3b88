// A caller waits for an answer in a request on its own stack, and has returned when the worker looks at the request again.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("answered", "reusing", "reused", "counting", "counted", "asking again");

#define REQUESTS 6

struct session {
    long n_answered;
};

struct request {
    struct session *volatile session;
    int number, is_answered;
    long sum;
};

static struct session session;
static struct request *posted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static struct request *take(void)
{
    pthread_mutex_lock(&lock);
    while (!posted)
        pthread_cond_wait(&news, &lock);
    struct request *taken = posted;
    posted = NULL;
    pthread_mutex_unlock(&lock);
    return taken;
}

static void answer(struct request *request, long sum)
{
    pthread_mutex_lock(&lock);
    request->sum = sum;
    request->is_answered = 1;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
    (void)unused;
    for (int taken = 0; taken < REQUESTS; taken++) {
        struct request *request = take();
        long sum = 0;
        for (int row = 0; row < 100; row++)
            sum += row * request->number;
#ifdef FIXED
        request->session->n_answered++;
#endif
        answer(request, sum);
        AT("answered");
#ifndef FIXED
        for (int row = 0; row < 8; row++)
            sum ^= sum >> row;
        AT("counting");
        request->session->n_answered += sum != -1; /* guilty: use */
        AT("counted");
#endif
    }
    return NULL;
}

__attribute__((noinline)) static long ask(int number)
{
    struct request request = {&session, number, 0, 0};
    pthread_mutex_lock(&lock);
    posted = &request;
    pthread_cond_broadcast(&news);
    while (!request.is_answered)
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    return request.sum;
}

__attribute__((noinline)) static int shown(long sum)
{
    volatile char line[256];
    for (unsigned at = 0; at < sizeof line; at++)
        line[at] = 'a' + (sum + at) % 26; /* guilty: reuse */
    return line[sum % 256];
}

int main(void)
{
    pthread_t worker;
    unsigned check = 0;
    pthread_create(&worker, NULL, work, NULL);
    for (int number = 0; number < REQUESTS; number++) {
        long sum = ask(number);
        for (int step = 0; step < 20000; step++)
            check = check * 31 + sum;
        AT("reusing");
        check = check * 31 + shown(sum);
        AT("reused");
        AT("asking again");
    }
    pthread_join(worker, NULL);
    printf("%ld answers, check %u\n", session.n_answered, check);
    return 0;
}
