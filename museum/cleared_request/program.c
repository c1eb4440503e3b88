// A client files a request and then announces it; a janitor that saw nothing announced throws the request away in between.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("idle-seen", "filing 0", "filed 0", "throwing", "thrown", "announcing 0");

#define REQUESTS 10

struct request {
    int number;
    char text[24];
};

static struct {
    struct request *request;
    int announced;
    pthread_mutex_t lock;
} desk = {NULL, 0, PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t visit_lock = PTHREAD_MUTEX_INITIALIZER;
static struct request requests[REQUESTS];
static long n_served;

static void set_request(struct request *request)
{
    pthread_mutex_lock(&desk.lock);
    desk.request = request;
    pthread_mutex_unlock(&desk.lock);
}

static void announce(int announced)
{
    pthread_mutex_lock(&desk.lock);
    desk.announced = announced;
    pthread_mutex_unlock(&desk.lock);
}

static void serve(void)
{
    pthread_mutex_lock(&desk.lock);
    n_served += desk.request->number >= 0; /* guilty: serve */
    desk.announced = 0;
    pthread_mutex_unlock(&desk.lock);
}

static void *client(void *unused)
{
    (void)unused;
    for (int number = 0; number < REQUESTS; number++) {
        requests[number].number = number;
        snprintf(requests[number].text, sizeof requests[number].text, "request %d", number);
#ifdef FIXED
        pthread_mutex_lock(&visit_lock);
#endif
        AT_NUMBER("filing", number);
        set_request(&requests[number]); /* guilty: file */
        AT_NUMBER("filed", number);
        AT_NUMBER("announcing", number);
        announce(1); /* guilty: announce */
        serve();
#ifdef FIXED
        pthread_mutex_unlock(&visit_lock);
#endif
    }
    return NULL;
}

static int is_idle(void)
{
    pthread_mutex_lock(&desk.lock);
    int idle = !desk.announced; /* guilty: look */
    pthread_mutex_unlock(&desk.lock);
    return idle;
}

static void *janitor(void *unused)
{
    (void)unused;
    for (int round = 0; round < 3; round++) {
#ifdef FIXED
        pthread_mutex_lock(&visit_lock);
#endif
        if (is_idle()) {
            AT("idle-seen");
            AT("throwing");
            set_request(NULL); /* guilty: throw */
            AT("thrown");
        }
#ifdef FIXED
        pthread_mutex_unlock(&visit_lock);
#endif
    }
    return NULL;
}

int main(void)
{
    pthread_t visiting, cleaning;
    (void)visit_lock;
    pthread_create(&visiting, NULL, client, NULL);
    pthread_create(&cleaning, NULL, janitor, NULL);
    pthread_join(visiting, NULL);
    pthread_join(cleaning, NULL);
    printf("%ld served\n", n_served);
    return 0;
}
