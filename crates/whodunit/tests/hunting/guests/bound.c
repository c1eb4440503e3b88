// Reads a line of its input before it has a second thread, and another one in that thread.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char first[4], second[4];
static int shared;

static void read_line(char line[4])
{
    read(0, line, 4);
    line[3] = 0;
}

static void *go_on(void *unused)
{
    (void)unused;
    shared++;
    read_line(second);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pid_t own = getpid();
    read_line(first);
    pthread_create(&thread, NULL, go_on, NULL);
    shared++;
    pthread_join(thread, NULL);
    printf("%s %s\n", first, own == getpid() ? second : "another process");
    return 0;
}
