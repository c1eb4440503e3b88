// Prints what a thread has not stored yet.
#include <pthread.h>
#include <stdio.h>

static volatile int answer;

static void *compute(void *unused)
{
    for (volatile int round = 0; round < 400000; round++)
        ;
    answer = 42; /* store */
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    printf("answer %d\n", answer); /* read */
    pthread_join(thread, NULL);
    return 0;
}
