// Several processes, each with several threads, accept on one listener; whoever is too late waits without stopping its other threads.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { WORKERS = 3, CONNECTIONS = 60 };
static int listener;
static void *acceptor(void *nothing) {
    (void)nothing;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) continue;
        char byte;
        if (read(connection, &byte, 1) == 1) { byte++; (void)!write(connection, &byte, 1); }
        close(connection);
    }
    return NULL;
}
// Answers only if the acceptors beside it do not keep the turn.
static void worker(int line) {
    pthread_t threads[2];
    char byte;
    for (int i = 0; i < 2; i++) MUST(pthread_create(&threads[i], NULL, acceptor, NULL) == 0);
    while (read(line, &byte, 1) == 1) (void)!write(line, &byte, 1);
    _exit(0);
}

int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    pid_t workers[WORKERS];
    int lines[WORKERS][2];
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(bind(listener, (void *)&name, sizeof name.sun_family) == 0 && listen(listener, 50) == 0);
    MUST(getsockname(listener, (void *)&name, &length) == 0);
    for (int i = 0; i < WORKERS; i++) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, lines[i]) == 0);
        if ((workers[i] = fork()) == 0) worker(lines[i][0]);
    }
    int answers = 0, alive = 0;
    char byte;
    for (int i = 0; i < CONNECTIONS; i++) {
        int connection = socket(AF_UNIX, SOCK_STREAM, 0);
        byte = 'a';
        MUST(connect(connection, (void *)&name, length) == 0 && write(connection, &byte, 1) == 1);
        answers += read(connection, &byte, 1) == 1 && byte == 'b';
        close(connection);
    }
    CHECK("all answered", answers == CONNECTIONS);
    for (int i = 0; i < WORKERS; i++) alive += write(lines[i][1], "x", 1) == 1 && read(lines[i][1], &byte, 1) == 1;
    CHECK("all alive", alive == WORKERS);
    for (int i = 0; i < WORKERS; i++) { kill(workers[i], SIGKILL); waitpid(workers[i], NULL, 0); }
    return 0;
}
