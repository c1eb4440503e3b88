// How long socket calls wait while other threads exist: not at all, for a time, for everything, for room.
//@ cc: -O2 -pthread
#include "check.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_gate(void *argument) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return argument;
}

static void limited(void) {
    int ends[2];
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK("MSG_DONTWAIT", recv(ends[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    struct timeval limit = {0, 20000};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    CHECK("recv ends in time", recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    CHECK("read ends in time", read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
    static char block[1 << 20];
    long sent = send(ends[0], block, sizeof block, 0);
    CHECK("send ends in time", sent > 0 && sent < (long)sizeof block);
    CHECK("full", write(ends[0], block, 1) == -1 && errno == EAGAIN);
}

static int pair[2];

static void *ten_times_ten(void *argument) {
    for (int i = 0; i < 10; i++) {
        MUST(write(pair[1], "0123456789", 10) == 10);
        sched_yield();
    }
    return argument;
}

static void everything(void) {
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pthread_t writer;
    char buffer[100];
    MUST(pthread_create(&writer, NULL, ten_times_ten, NULL) == 0);
    CHECK("MSG_WAITALL", recv(pair[0], buffer, sizeof buffer, MSG_WAITALL) == sizeof buffer);
    pthread_join(writer, NULL);
}

enum { DATAGRAMS = 2000 };

static void *take_datagrams(void *argument) {
    long sum = 0;
    for (int i = 0; i < DATAGRAMS; i++) {
        char byte = 0;
        MUST(recv(*(int *)argument, &byte, 1, 0) == 1);
        sum += byte;
    }
    return (void *)sum;
}

// The sender is always ready to send; the receiver's queue is what is full.
static void datagrams(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof name;
    int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    MUST(bind(receiver, (void *)&name, sizeof(sa_family_t)) == 0);
    MUST(getsockname(receiver, (void *)&name, &size) == 0);
    pthread_t reader;
    void *sum;
    MUST(pthread_create(&reader, NULL, take_datagrams, &receiver) == 0);
    for (int i = 0; i < DATAGRAMS; i++)
        MUST(sendto(sender, "\1", 1, 0, (void *)&name, size) == 1);
    pthread_join(reader, &sum);
    CHECK("datagrams", (long)sum == DATAGRAMS);
}

int main(void) {
    pthread_t other;
    pthread_mutex_lock(&gate);
    MUST(pthread_create(&other, NULL, wait_at_gate, NULL) == 0);
    limited();
    everything();
    datagrams();
    pthread_mutex_unlock(&gate);
    pthread_join(other, NULL);
}
