// TCP, UDP and Unix sockets inside the machine: client and server processes, messages with descriptors and credentials.
//@ cc: -O1
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static void tcp(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    MUST(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 5) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = fork();
    if (child == 0) {
        int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        MUST(connect(s, (struct sockaddr *)&address, sizeof address) == 0);
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (int i = 0; i < 50; i++) { int n = htonl(i); MUST(send(s, &n, 4, 0) == 4); MUST(recv(s, &n, 4, MSG_WAITALL) == 4); MUST((int)ntohl(n) == i * i); }
        _exit(4);
    }
    int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC), n, count = 0;
    while (recv(s, &n, 4, MSG_WAITALL) == 4) { n = ntohl(n); n = htonl(n * n); send(s, &n, 4, 0); count++; }
    int status;
    waitpid(child, &status, 0);
    printf("tcp: %d requests, child %d\n", count, WEXITSTATUS(status));
    close(s);
    close(listener);
    s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK("refused", connect(s, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
}
static void udp(void) {
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    MUST(bind(a, (struct sockaddr *)&address, size) == 0 && getsockname(a, (struct sockaddr *)&address, &size) == 0);
    for (int i = 0; i < 5; i++) { char text[16]; int n = sprintf(text, "datagram %d", i); sendto(b, text, n, 0, (struct sockaddr *)&address, size); }
    for (int i = 0; i < 5; i++) { char text[32] = ""; recv(a, text, 31, 0); printf("%s\n", text); }
    CHECK("empty", recv(a, &size, 4, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}
static void passing(void) {
    int pair[2], ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    char byte = 'd';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    pid_t child = fork();
    if (child == 0) {
        MUST(recvmsg(pair[1], &message, 0) == 1);
        int received;
        memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
        _exit(write(received, "by a passed descriptor", 22) == 22 ? 0 : 1);
    }
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
    MUST(sendmsg(pair[0], &message, 0) == 1);
    waitpid(child, NULL, 0);
    char text[32] = "";
    MUST(read(ends[0], text, 31) == 22);
    printf("%s\n", text);
    struct ucred peer;
    socklen_t size = sizeof peer;
    CHECK("credentials", getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid());
}
static void named(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    MUST(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    int server = accept(listener, NULL, NULL);
    CHECK("message", send(client, "hi", 2, 0) == 2 && ({ char text[4] = ""; recv(server, text, 4, 0) == 2 && !strcmp(text, "hi"); }));
    close(client);
    struct pollfd polled = {server, POLLIN, 0};
    CHECK("hang-up", poll(&polled, 1, 1000) == 1 && (polled.revents & POLLHUP));
    CHECK("address in use", bind(client = socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address) == -1 && errno == EADDRINUSE);
}
int main(void) {
    tcp();
    udp();
    passing();
    named();
    return 0;
}
