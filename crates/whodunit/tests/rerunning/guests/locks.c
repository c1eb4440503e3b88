/* Two locks, taken in two orders. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void *forwards(void *unused) {
    pthread_mutex_lock(&first); /* forwards outer */
    pthread_mutex_lock(&second); /* forwards inner */
    total++;
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
    return unused;
}

static void *backwards(void *unused) {
    pthread_mutex_lock(&second); /* backwards outer */
    pthread_mutex_lock(&first); /* backwards inner */
    total++;
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, forwards, 0);
    pthread_create(&threads[1], 0, backwards, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("total %d\n", total); /* end */
    return 0;
}
