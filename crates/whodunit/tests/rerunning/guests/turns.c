/* Who came when: each thread leaves its letter, without any lock. */
#include <pthread.h>
#include <stdio.h>

static char seen[61];
static volatile int next;

static void *writer(void *letter) {
    for (int i = 0; i < 30; i++) {
        for (volatile int pause = 0; pause < 10; pause++)
            ;
        if (next < 60)
            seen[next++] = *(char *)letter;
    }
    return letter;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, writer, "a");
    pthread_create(&threads[1], 0, writer, "b");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0); /* join */
    puts(seen);
    return 0;
}
