/* One thread spins until the other has said so. */
#include <pthread.h>
#include <stdio.h>

static volatile int said;

static void *sayer(void *unused) {
    said = 1; /* say */
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, sayer, 0);
    while (!said)
        ;
    puts("heard"); /* heard */
    pthread_join(thread, 0);
    return 0;
}
