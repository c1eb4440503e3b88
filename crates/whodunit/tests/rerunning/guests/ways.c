/* A program with many ways that it does not go by itself. */
#include <pthread.h>
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
    puts("end");
    return 0;
}
