// Writes that are larger than the pipe or socket takes at once, drained by another thread: all of it arrives, in order.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SIZE = 1 << 20, FIRST = 1000 };

static unsigned char *data;

struct drain {
    int fd;
    long count;
    int in_order;
};

static void *drain(void *argument) {
    struct drain *drain = argument;
    static unsigned char buffer[10000];
    long got;
    drain->in_order = 1;
    while ((got = read(drain->fd, buffer, sizeof buffer)) > 0) {
        if (drain->count + got > SIZE || memcmp(buffer, data + drain->count, got) != 0)
            drain->in_order = 0;
        drain->count += got;
    }
    return NULL;
}

static long send_all(int fd, int how) {
    struct iovec parts[3] = {{data, FIRST}, {data + FIRST, SIZE / 2}, {data + FIRST + SIZE / 2, SIZE / 2 - FIRST}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    switch (how) {
    case 0: return write(fd, data, SIZE);
    case 1: return writev(fd, parts, 3);
    case 2: return send(fd, data, SIZE, 0);
    default: return sendmsg(fd, &message, 0);
    }
}

static void transfer(const char *name, int in, int out, int how) {
    struct drain state = {.fd = in};
    pthread_t reader;
    MUST(pthread_create(&reader, NULL, drain, &state) == 0);
    long sent = send_all(out, how);
    close(out);
    pthread_join(reader, NULL);
    close(in);
    CHECK(name, sent == SIZE && state.count == SIZE && state.in_order);
}

int main(void) {
    data = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        data[i] = i * 7 + i / 999;
    const char *names[] = {"write", "writev", "send", "sendmsg"};
    for (int how = 0; how < 4; how++) {
        int ends[2];
        if (how < 2) {
            MUST(pipe(ends) == 0);
            transfer(names[how], ends[0], ends[1], how);
        }
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        transfer(names[how], ends[0], ends[1], how);
    }
}
