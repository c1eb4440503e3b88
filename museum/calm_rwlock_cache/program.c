// A cache under a reader-writer lock: lookups share it, a miss gives the read lock up, takes the write lock and looks again.
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define KEYS 12

static struct {
    int known[KEYS];
    long values[KEYS];
    int n_computed;
    pthread_rwlock_t lock;
} cache = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static long compute(int key)
{
    long value = key;
    for (int step = 0; step < 30; step++)
        value = value * 3 % 1009 + step;
    return value;
}

static int find(int key, long *value)
{
    pthread_rwlock_rdlock(&cache.lock);
    int known = cache.known[key];
    *value = cache.values[key];
    pthread_rwlock_unlock(&cache.lock);
    return known;
}

static long add(int key)
{
    pthread_rwlock_wrlock(&cache.lock);
    if (!cache.known[key]) {
        cache.values[key] = compute(key);
        cache.known[key] = 1;
        cache.n_computed++;
    }
    long value = cache.values[key];
    pthread_rwlock_unlock(&cache.lock);
    return value;
}

static void *look_up(void *sum)
{
    for (int number = 0; number < 3 * KEYS; number++) {
        long value;
        if (!find(number % KEYS, &value))
            value = add(number % KEYS);
        *(long *)sum += value;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    long sums[THREADS] = {0};
    for (int number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, look_up, &sums[number]);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("%d computed, sums %ld %ld %ld\n", cache.n_computed, sums[0], sums[1], sums[2]);
    return 0;
}
