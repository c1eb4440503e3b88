// 64 threads at a time, results through join, attributes, detached threads, stacks of chosen size, thread names.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t done;
static int detached_sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *square(void *n) { return (void *)((intptr_t)n * (intptr_t)n); }
static void *detached(void *n) {
    pthread_mutex_lock(&lock);
    detached_sum += (int)(intptr_t)n;
    pthread_mutex_unlock(&lock);
    sem_post(&done);
    return NULL;
}
static void *on_small_stack(void *where) {
    char block[8000];
    memset(block, 3, sizeof block);
    __asm__ volatile("" : : "r"(block) : "memory");
    *(void **)where = block;
    return (void *)(intptr_t)(block[7999] + block[0]);
}
static void *named(void *unused) {
    char name[16] = "";
    pthread_setname_np(pthread_self(), "worker name");
    pthread_getname_np(pthread_self(), name, sizeof name);
    (void)unused;
    return strdup(name);
}
static void *spawns(void *depth) {
    pthread_t child;
    void *result = NULL;
    if ((intptr_t)depth == 0)
        return (void *)1;
    MUST(pthread_create(&child, NULL, spawns, (void *)((intptr_t)depth - 1)) == 0);
    pthread_join(child, &result);
    return (void *)((intptr_t)result + 1);
}

int main(void) {
    pthread_t threads[64], one;
    void *result, *where;
    long sum = 0;
    for (int round = 0; round < 3; round++) {
        for (intptr_t i = 0; i < 64; i++)
            MUST(pthread_create(&threads[i], NULL, square, (void *)i) == 0);
        for (int i = 63; i >= 0; i--) {
            MUST(pthread_join(threads[i], &result) == 0 && (intptr_t)result == i * i);
            sum += (intptr_t)result;
        }
    }
    printf("sum %ld\n", sum);
    for (int i = 0; i < 300; i++) {
        MUST(pthread_create(&one, NULL, square, (void *)(intptr_t)i) == 0);
        pthread_join(one, &result);
        sum += (intptr_t)result;
    }
    printf("one after another %ld\n", sum);
    sem_init(&done, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (intptr_t i = 0; i < 20; i++)
        MUST(pthread_create(&one, &attributes, detached, (void *)i) == 0);
    for (int i = 0; i < 20; i++)
        sem_wait(&done);
    printf("detached %d\n", detached_sum);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE);
    CHECK("stack size", pthread_attr_setstacksize(&attributes, 65536) == 0);
    MUST(pthread_create(&one, &attributes, on_small_stack, &where) == 0);
    pthread_join(one, &result);
    printf("small stack %ld\n", (long)(intptr_t)result);
    static char own[128 * 1024] __attribute__((aligned(4096)));
    CHECK("own stack", pthread_attr_setstack(&attributes, own, sizeof own) == 0);
    MUST(pthread_create(&one, &attributes, on_small_stack, &where) == 0);
    pthread_join(one, &result);
    CHECK("ran on its own stack", (char *)where > own && (char *)where < own + sizeof own);
    MUST(pthread_create(&one, NULL, named, NULL) == 0);
    pthread_join(one, &result);
    printf("name %s\n", (char *)result);
    printf("chain %ld\n", (long)(intptr_t)spawns((void *)20));
    CHECK("self join", pthread_join(pthread_self(), NULL) == EDEADLK);
    CHECK("equal", pthread_equal(pthread_self(), pthread_self()));
    CHECK("name too long", pthread_setname_np(pthread_self(), "a name of far too many letters") == ERANGE);
    return 0;
}
