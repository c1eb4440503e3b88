// A thread that waits for a flag which is set only if it comes first: else it spins for ever.
#include <pthread.h>

static volatile int late, go;

static void *spin(void *unused) {
    if (late)
        while (!go)
            ;
    return unused;
}

static void *delay(void *unused) {
    late = 1;
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, spin, 0);
    pthread_create(&threads[1], 0, delay, 0);
    pthread_join(threads[1], 0);
    pthread_join(threads[0], 0);
    return 0;
}
