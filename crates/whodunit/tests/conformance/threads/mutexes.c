// Mutexes of every kind: normal, recursive, error-checking, robust, priority-inheriting, timed, shared between processes.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static pthread_mutex_t mutex;
static long counter;

static void make(pthread_mutex_t *m, int type, int robust, int protocol, int shared) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutexattr_setpshared(&a, shared);
    MUST(pthread_mutex_init(m, &a) == 0);
}
static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static void *die_holding(void *unused) { (void)unused; pthread_mutex_lock(&mutex); return NULL; }
static void *try_lock(void *unused) { (void)unused; int r = pthread_mutex_trylock(&mutex); if (!r) pthread_mutex_unlock(&mutex); return (void *)(intptr_t)r; }
static void *unlock_foreign(void *unused) { (void)unused; return (void *)(intptr_t)pthread_mutex_unlock(&mutex); }
static int in_thread(void *(*body)(void *)) {
    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    pthread_join(thread, &result);
    return (int)(intptr_t)result;
}
static void contend(const char *name) {
    pthread_t threads[6];
    counter = 0;
    for (int i = 0; i < 6; i++)
        MUST(pthread_create(&threads[i], NULL, count, NULL) == 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    printf("%s: %ld\n", name, counter);
}

int main(void) {
    static const struct { const char *name; int type, robust, protocol; } kinds[] = {
        {"normal", PTHREAD_MUTEX_NORMAL, 0, 0}, {"recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0}, {"errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, 0},
        {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0}, {"robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0},
        {"inheriting", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT}, {"robust inheriting", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        make(&mutex, kinds[i].type, kinds[i].robust, kinds[i].protocol, 0);
        contend(kinds[i].name);
        pthread_mutex_lock(&mutex);
        printf("  busy for others %d\n", in_thread(try_lock));
        pthread_mutex_unlock(&mutex);
        printf("  free for others %d\n", in_thread(try_lock));
        CHECK("destroy", pthread_mutex_destroy(&mutex) == 0);
    }
    make(&mutex, PTHREAD_MUTEX_RECURSIVE, 0, 0, 0);
    for (int i = 0; i < 5; i++)
        pthread_mutex_lock(&mutex);
    for (int i = 0; i < 5; i++) {
        printf("recursive, still busy %d\n", in_thread(try_lock));
        pthread_mutex_unlock(&mutex);
    }
    printf("recursive, free %d\n", in_thread(try_lock));
    make(&mutex, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0);
    CHECK("unlock of a free one", pthread_mutex_unlock(&mutex) == EPERM);
    pthread_mutex_lock(&mutex);
    CHECK("lock twice", pthread_mutex_lock(&mutex) == EDEADLK);
    CHECK("unlock of another's", in_thread(unlock_foreign) == EPERM);

    for (int protocol = 0; protocol < 2; protocol++) {
        make(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, protocol ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE, 0);
        in_thread(die_holding);
        CHECK("owner died", pthread_mutex_lock(&mutex) == EOWNERDEAD);
        CHECK("made consistent", pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        CHECK("usable again", pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        in_thread(die_holding);
        CHECK("owner died again", pthread_mutex_lock(&mutex) == EOWNERDEAD);
        pthread_mutex_unlock(&mutex); // not made consistent
        CHECK("lost for good", pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
    }
    return 0;
}
