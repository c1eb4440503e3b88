// Two threads add to a variable, each by a load and a store: one sum may be lost. There is no branch in between.
#include <pthread.h>
#include <stdio.h>

static volatile long sum;

static void *add(void *unused) {
    (void)unused;
    sum = sum + 1;
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", sum);
    return 0;
}
