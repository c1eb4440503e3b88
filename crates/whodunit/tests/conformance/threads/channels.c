// Threads that talk through the kernel: pipes, socket pairs, eventfd, epoll, poll, select, message by message.
//@ cc: -O1 -pthread
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int to[2], from[2], pair[2], event;

static void *echo(void *unused) {
    (void)unused;
    int n;
    while (read(to[0], &n, sizeof n) == sizeof n) {
        n = n * 2 + 1;
        MUST(write(from[1], &n, sizeof n) == sizeof n);
    }
    close(from[1]);
    return NULL;
}
static void *upper(void *unused) {
    (void)unused;
    char text[64];
    ssize_t n;
    while ((n = recv(pair[1], text, sizeof text, 0)) > 0) {
        for (ssize_t i = 0; i < n; i++) text[i] ^= 0x20;
        send(pair[1], text, n, 0);
    }
    shutdown(pair[1], SHUT_WR);
    return NULL;
}
static void *signals_event(void *unused) {
    (void)unused;
    for (uint64_t i = 1; i <= 10; i++) MUST(write(event, &i, 8) == 8);
    return NULL;
}
static void *bulk(void *end) {
    char block[4096];
    for (int i = 0; i < 64; i++) { // more than a pipe holds
        memset(block, i, sizeof block);
        for (size_t done = 0; done < sizeof block;) done += write(*(int *)end, block + done, sizeof block - done);
    }
    close(*(int *)end);
    return NULL;
}

int main(void) {
    pthread_t thread;
    MUST(pipe(to) == 0 && pipe(from) == 0);
    MUST(pthread_create(&thread, NULL, echo, NULL) == 0);
    int value = 0;
    for (int i = 0; i < 200; i++) {
        value %= 1000;
        MUST(write(to[1], &value, sizeof value) == sizeof value);
        MUST(read(from[0], &value, sizeof value) == sizeof value);
    }
    printf("ping-pong %d\n", value);
    close(to[1]);
    CHECK("end of file", read(from[0], &value, sizeof value) == 0);
    pthread_join(thread, NULL);

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    MUST(pthread_create(&thread, NULL, upper, NULL) == 0);
    static const char *const words[] = {"alpha", "Beta", "gamma delta"};
    for (int i = 0; i < 3; i++) {
        char answer[64] = "";
        send(pair[0], words[i], strlen(words[i]), 0);
        ssize_t n = recv(pair[0], answer, sizeof answer - 1, 0);
        printf("%zd %s\n", n, answer);
    }
    shutdown(pair[0], SHUT_WR);
    pthread_join(thread, NULL);

    event = eventfd(0, 0);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event interest = {.events = EPOLLIN, .data.u32 = 77}, ready[4];
    MUST(epoll_ctl(poller, EPOLL_CTL_ADD, event, &interest) == 0);
    CHECK("nothing yet", epoll_wait(poller, ready, 4, 0) == 0);
    MUST(pthread_create(&thread, NULL, signals_event, NULL) == 0);
    uint64_t total = 0, part;
    while (total < 55) {
        int n = epoll_wait(poller, ready, 4, -1);
        MUST(n == 1 && ready[0].data.u32 == 77);
        MUST(read(event, &part, 8) == 8);
        total += part;
    }
    pthread_join(thread, NULL);
    printf("events %lu\n", (unsigned long)total);

    int pipes[2], more[2];
    MUST(pipe(pipes) == 0 && pipe(more) == 0);
    MUST(pthread_create(&thread, NULL, bulk, &pipes[1]) == 0);
    struct pollfd polled[2] = {{pipes[0], POLLIN, 0}, {more[0], POLLIN, 0}};
    long sum = 0, bytes = 0;
    for (;;) {
        char block[10000];
        MUST(poll(polled, 2, -1) == 1);
        ssize_t n = read(pipes[0], block, sizeof block);
        if (n == 0) break;
        bytes += n;
        for (ssize_t i = 0; i < n; i++) sum += block[i];
    }
    pthread_join(thread, NULL);
    printf("bulk %ld %ld\n", bytes, sum);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(more[0], &set);
    struct timeval short_time = {0, 5000};
    CHECK("select times out", select(more[0] + 1, &set, NULL, NULL, &short_time) == 0);
    MUST(write(more[1], "x", 1) == 1);
    FD_SET(more[0], &set);
    CHECK("select sees a byte", select(more[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(more[0], &set));
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
    char text[8] = "";
    MUST(writev(more[1], parts, 2) == 5);
    CHECK("readv gets it together", read(more[0], text, 7) == 6 && !strcmp(text, "xabcde"));
    fcntl(more[0], F_SETFL, O_NONBLOCK);
    CHECK("would block", read(more[0], text, 1) == -1 && errno == EAGAIN);
    return 0;
}
