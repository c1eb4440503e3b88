// Blocks go to another thread through a pipe, and nobody looks how much of each the pipe has taken.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 8
#define BLOCK_SIZE 6000

static int ends[2];
static long n_received;

static void *receive(void *unused)
{
    char buffer[4096];
    ssize_t n_bytes;
    while ((n_bytes = read(ends[0], buffer, sizeof buffer)) > 0)
        n_received += n_bytes;
    return unused;
}

#ifdef FIXED
static void send_block(const char *block)
{
    size_t n_sent = 0;
    while (n_sent < BLOCK_SIZE) {
        ssize_t taken = write(ends[1], block + n_sent, BLOCK_SIZE - n_sent);
        if (taken > 0)
            n_sent += taken;
        else
            poll(&(struct pollfd){ends[1], POLLOUT, 0}, 1, -1);
    }
}
#else
static void send_block(const char *block)
{
    ssize_t taken = write(ends[1], block, BLOCK_SIZE); /* guilty: write */
    (void)taken;
}
#endif

int main(void)
{
    char block[BLOCK_SIZE];
    pthread_t receiver;
    if (pipe(ends) != 0)
        return 2;
#ifdef SHOW
    /* A pipe that never waits takes what it has room for. */
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
#endif
    if (pthread_create(&receiver, NULL, receive, NULL) != 0)
        return 2;
    memset(block, 'b', sizeof block);
    for (int number = 0; number < BLOCKS; number++)
        send_block(block);
    close(ends[1]);
    pthread_join(receiver, NULL);
    if (n_received != (long)BLOCKS * BLOCK_SIZE)
        return 1;
    printf("%ld bytes received\n", n_received);
    return 0;
}
