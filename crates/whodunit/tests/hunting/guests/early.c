// Writes before it has a second thread, and afterwards finds that its first one still knows who it is.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static int shared;

static void handle(int signal)
{
    (void)signal;
    handled = 1;
}

static void *count(void *unused)
{
    (void)unused;
    shared++;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    signal(SIGUSR1, handle);
    write(1, "before\n", 7);
    pthread_create(&thread, NULL, count, NULL);
    shared++;
    // Sent to the thread by its number, which the C library has kept.
    pthread_kill(pthread_self(), SIGUSR1);
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
    pthread_mutex_lock(&lock);
    puts(handled && lock.__data.__owner == gettid() ? "numbers agree" : "numbers differ");
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    puts("after");
    return 0;
}
