// A reader uses a pointer that a writer takes away between the check and the use.
#include <pthread.h>
#include <stddef.h>

static int value = 42;
static int *volatile pointer = &value;

static void *reader(void *unused) {
    (void)unused;
    if (pointer != NULL)
        value = *pointer;
    return NULL;
}

static void *writer(void *unused) {
    (void)unused;
    pointer = NULL;
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, reader, NULL);
    pthread_create(&threads[1], NULL, writer, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
