/* A cache server without its network: clients put requests as text into queues, workers parse and answer them from one
 * hash table with locks for groups of buckets, and items that are too old make room. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4, CLIENTS = 2, REQUESTS = 400000, BUCKETS = 1 << 14, LOCKS = 64, BATCH = 64, MOST = 20000 };

struct item {
    struct item *next;
    unsigned hash, size;
    unsigned long used;
    char key[24];
    char value[];
};

struct batch {
    struct batch *next;
    int count;
    char requests[BATCH][48];
};

struct worker {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct batch *first, **last;
    int closed;
    unsigned long hits, misses;
};

static struct worker workers[WORKERS];
static struct item *buckets[BUCKETS];
static pthread_mutex_t bucket_locks[LOCKS];
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static int items;

static unsigned hash_of(const char *key)
{
    unsigned hash = 2166136261u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash;
}

static void count_items(int change)
{
    pthread_mutex_lock(&count_lock);
    items += change;
    pthread_mutex_unlock(&count_lock);
}

static int is_full(void)
{
    pthread_mutex_lock(&count_lock);
    int full = items >= MOST;
    pthread_mutex_unlock(&count_lock);
    return full;
}

static struct item **find(const char *key, unsigned hash)
{
    struct item **at = &buckets[hash % BUCKETS];
    while (*at && ((*at)->hash != hash || strcmp((*at)->key, key)))
        at = &(*at)->next;
    return at;
}

static int get(const char *key, char *answer, unsigned long now)
{
    unsigned hash = hash_of(key);
    pthread_mutex_t *lock = &bucket_locks[hash % LOCKS];
    pthread_mutex_lock(lock);
    struct item *item = *find(key, hash);
    if (item) {
        item->used = now;
        memcpy(answer, item->value, item->size);
    }
    pthread_mutex_unlock(lock);
    return item != NULL;
}

static void set(const char *key, unsigned size, unsigned long now)
{
    unsigned hash = hash_of(key);
    int full = is_full(), change = 1;
    struct item *item = malloc(sizeof *item + size);
    item->hash = hash;
    item->size = size;
    item->used = now;
    strcpy(item->key, key);
    memset(item->value, (int)size, size);
    pthread_mutex_t *lock = &bucket_locks[hash % LOCKS];
    pthread_mutex_lock(lock);
    struct item **at = find(key, hash), *old = *at;
    if (!old && full)
        old = *(at = &buckets[hash % BUCKETS]);
    item->next = old ? old->next : NULL;
    *at = item;
    pthread_mutex_unlock(lock);
    if (old)
        change = 0;
    free(old);
    if (change)
        count_items(change);
}

static void answer(struct worker *worker, const char *request, unsigned long now)
{
    char key[24], value[256];
    unsigned size = 0;
    const char *at = strchr(request, ' ') + 1;
    size_t length = strcspn(at, " ");
    memcpy(key, at, length);
    key[length] = 0;
    for (at += length; *at; at++)
        if (*at >= '0' && *at <= '9')
            size = size * 10 + (*at - '0');
    if (*request == 's')
        set(key, size, now);
    else if (get(key, value, now))
        worker->hits++;
    else
        worker->misses++;
}

static void *serve(void *own)
{
    struct worker *worker = own;
    unsigned long now = 0;
    for (;;) {
        pthread_mutex_lock(&worker->lock);
        while (!worker->first && !worker->closed)
            pthread_cond_wait(&worker->filled, &worker->lock);
        struct batch *batch = worker->first;
        if (batch && !(worker->first = batch->next))
            worker->last = &worker->first;
        pthread_mutex_unlock(&worker->lock);
        if (!batch)
            return NULL;
        for (int i = 0; i < batch->count; i++)
            answer(worker, batch->requests[i], ++now);
        free(batch);
    }
}

static void put(struct worker *worker, struct batch *batch)
{
    pthread_mutex_lock(&worker->lock);
    *worker->last = batch;
    worker->last = &batch->next;
    pthread_cond_signal(&worker->filled);
    pthread_mutex_unlock(&worker->lock);
}

static void *ask(void *own)
{
    unsigned state = (unsigned)(long)own;
    for (int sent = 0; sent < REQUESTS; sent += BATCH) {
        struct batch *batch = malloc(sizeof *batch);
        batch->next = NULL;
        batch->count = BATCH;
        for (int i = 0; i < BATCH; i++) {
            state = state * 1664525 + 1013904223;
            unsigned key = (state >> 8) % 30000 * ((state >> 4 & 3) + 1) % 30000;
            if (state >> 29)
                sprintf(batch->requests[i], "get key-%u", key);
            else
                sprintf(batch->requests[i], "set key-%u %u", key, 32 + (state >> 12 & 127));
        }
        put(&workers[(sent / BATCH + (long)own) % WORKERS], batch);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[WORKERS], clients[CLIENTS];
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&bucket_locks[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_cond_init(&workers[i].filled, NULL);
        workers[i].last = &workers[i].first;
        pthread_create(&threads[i], NULL, serve, &workers[i]);
    }
    for (long i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, ask, (void *)(i + 1));
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        pthread_mutex_lock(&workers[i].lock);
        workers[i].closed = 1;
        pthread_cond_broadcast(&workers[i].filled);
        pthread_mutex_unlock(&workers[i].lock);
    }
    unsigned long answered = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        answered += workers[i].hits + workers[i].misses;
    }
    printf("%lu answered\n", answered);
    return 0;
}
