// Conditions, read-write locks, spin locks, barriers, semaphores, once: with many threads and fixed results.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

enum { THREADS = 6, ITEMS = 500 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t semaphore, *shared;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int queue[4], head, used, produced, once_count, serial_count, inside, most_inside;
static long consumed_sum, spin_count, pair[2], torn;

static void initialise(void) { once_count++; }

static void *producer(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&mutex);
        if (produced == ITEMS) { pthread_mutex_unlock(&mutex); return NULL; }
        int item = ++produced;
        while (used == 4) pthread_cond_wait(&not_full, &mutex);
        queue[(head + used++) % 4] = item;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
}
static void *consumer(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (used == 0) pthread_cond_wait(&not_empty, &mutex);
        int item = queue[head];
        if (item < 0) { pthread_cond_signal(&not_empty); pthread_mutex_unlock(&mutex); return NULL; }
        head = (head + 1) % 4;
        used--;
        consumed_sum += item;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
    }
}
static void *others(void *argument) {
    int id = (int)(intptr_t)argument;
    pthread_once(&once, initialise);
    for (int i = 0; i < 300; i++) {
        if (i % 10 == id) {
            pthread_rwlock_wrlock(&rwlock);
            pair[0]++; pair[1]++;
        } else {
            pthread_rwlock_rdlock(&rwlock);
            if (pair[0] != pair[1]) torn = 1;
        }
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spin);
        spin_count++;
        pthread_spin_unlock(&spin);
    }
    for (int i = 0; i < 20; i++) {
        int r = pthread_barrier_wait(&barrier);
        if (r == PTHREAD_BARRIER_SERIAL_THREAD) __atomic_fetch_add(&serial_count, 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < 50; i++) {
        sem_wait(&semaphore);
        int n = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        if (n > 2) __atomic_store_n(&most_inside, n, __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
        sem_post(&semaphore);
    }
    sem_post(shared);
    return NULL;
}

int main(void) {
    pthread_t threads[2 * THREADS];
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&semaphore, 0, 2);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && sem_init(shared, 1, 0) == 0);
    for (int i = 0; i < 3; i++) {
        MUST(pthread_create(&threads[i], NULL, producer, NULL) == 0);
        MUST(pthread_create(&threads[3 + i], NULL, consumer, NULL) == 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    pthread_mutex_lock(&mutex);
    while (used == 4) pthread_cond_wait(&not_full, &mutex);
    queue[(head + used++) % 4] = -1;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) pthread_join(threads[3 + i], NULL);
    printf("consumed %ld\n", consumed_sum);
    for (intptr_t i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, others, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) sem_wait(shared);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("once %d, spin %ld, written %ld, torn %ld, serial %d\n", once_count, spin_count, pair[0], torn, serial_count);
    CHECK("semaphore admits two", most_inside == 0);
    int value;
    sem_getvalue(&semaphore, &value);
    printf("semaphore %d\n", value);
    CHECK("try", pthread_spin_trylock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY);
    CHECK("rwlock try", pthread_rwlock_tryrdlock(&rwlock) == 0 && pthread_rwlock_tryrdlock(&rwlock) == 0 && pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    return 0;
}
