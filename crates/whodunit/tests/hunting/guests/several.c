// Three ways to fail, depending on who comes first.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int place;

static void *come(void *argument) {
    int mine = place;
    place = mine + 1;
    if (mine == 1 && argument == 0)
        _exit(3);
    if (mine == 2 && argument != 0)
        abort();
    return 0;
}

int main(void) {
    pthread_t threads[3];
    for (long i = 2; i >= 0; i--)
        pthread_create(&threads[i], 0, come, (void *)(i % 2));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
