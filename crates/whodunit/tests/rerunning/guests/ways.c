/* A program with many ways that it does not go by itself. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int way, mode;

static void handler(int signal) {
    char text[] = "handled\n";
    (void)!write(1, text, sizeof text - 1);
    _exit(signal == SIGSEGV ? 3 : 4);
}

static void write_a_file(void) {
    char line[64] = "";
    FILE *file = fopen("made.txt", "w");
    fputs("kept in memory\n", file);
    fclose(file);
    file = fopen("made.txt", "r");
    printf("read: %s", fgets(line, sizeof line, file));
    fclose(file);
}

static void *waits(void *unused) {
    pthread_exit(unused);
}

static void sleep_and_join(void) {
    pthread_t thread;
    pthread_create(&thread, 0, waits, 0);
    usleep(2000000);
    pthread_join(thread, 0);
    puts("slept");
}

static volatile int n_noticed;

static void notice(int signal) {
    n_noticed += signal == SIGUSR1;
}

static void *sleeps(void *set) {
    pthread_sigmask(SIG_BLOCK, set, 0);
    while (!mode)
        sched_yield();
    int before = n_noticed;
    pthread_sigmask(SIG_UNBLOCK, set, 0);
    printf("%d noticed while blocked, %d behind it\n", before, n_noticed);
    for (;;)
        sleep(1000);
}

/* One signal comes while it is blocked, one in sleep, and the last one ends the thread there. */
static void signal_each_other(void) {
    pthread_t thread;
    sigset_t set;
    void *result;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, notice);
    mode = 0;
    pthread_create(&thread, 0, sleeps, &set);
    usleep(1000);
    pthread_kill(thread, SIGUSR1);
    mode = 1;
    usleep(1000);
    pthread_kill(thread, SIGUSR1);
    usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%d noticed, %s\n", n_noticed, result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

int main(void) {
    signal(SIGSEGV, handler);
    mode = 1; /* mode */
    printf("mode %d\n", mode);
    if (way == 1) /* to a socket */
        printf("socket %d\n", socket(AF_INET, SOCK_STREAM, 0));
    if (way == 2) /* to a file */
        write_a_file();
    if (way == 3) /* to abort */
        abort();
    if (way == 4) /* to a handler */
        printf("%d\n", *(volatile int *)strlen(""));
    if (way == 5) /* to a thread */
        sleep_and_join();
    if (way == 6) /* to signals */
        signal_each_other();
    puts("end");
    return 0;
}
