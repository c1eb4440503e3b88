/* The consumer uses what the producer makes, and nothing but luck lets the producer go first. With an argument the
   consumer is started first, and luck is against it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct config {
    int size;
};

static struct config *config;

static void *consumer(void *unused) {
    int size = config->size; /* use */
    printf("size %d\n", size);
    return unused;
}

static void *producer(void *unused) {
    struct config *made = malloc(sizeof *made);
    made->size = 42;
    config = made; /* init */
    return unused;
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t threads[2];
    pthread_create(&threads[0], 0, argc > 1 ? consumer : producer, 0);
    pthread_create(&threads[1], 0, argc > 1 ? producer : consumer, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0); /* join */
    puts("done");
    return 0;
}
