// Several processes, each with several threads, accept on one listener; whoever is too late waits without stopping its other threads.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { WORKERS = 3, CONNECTIONS = 60 };
static int listener;
static volatile int *beats;
static void *acceptor(void *nothing) {
    (void)nothing;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) continue;
        char byte;
        if (read(connection, &byte, 1) == 1) { byte++; (void)!write(connection, &byte, 1); }
        close(connection);
    }
}
// Beats only if the acceptor beside it does not keep the turn.
static void worker(int number) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) MUST(pthread_create(&threads[i], NULL, acceptor, NULL) == 0);
    for (;;) { __atomic_fetch_add(&beats[number], 1, __ATOMIC_RELAXED); usleep(200); }
}

int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    pid_t workers[WORKERS];
    beats = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(beats != MAP_FAILED && bind(listener, (void *)&name, sizeof name.sun_family) == 0 && listen(listener, 50) == 0);
    MUST(getsockname(listener, (void *)&name, &length) == 0);
    for (int i = 0; i < WORKERS; i++) if ((workers[i] = fork()) == 0) worker(i);
    int answers = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        int connection = socket(AF_UNIX, SOCK_STREAM, 0);
        char byte = 'a';
        MUST(connect(connection, (void *)&name, length) == 0 && write(connection, &byte, 1) == 1);
        answers += read(connection, &byte, 1) == 1 && byte == 'b';
        close(connection);
    }
    CHECK("all answered", answers == CONNECTIONS);
    for (int i = 0; i < WORKERS; i++) {
        int before = __atomic_load_n(&beats[i], __ATOMIC_RELAXED);
        while (__atomic_load_n(&beats[i], __ATOMIC_RELAXED) < before + 3) usleep(200);
    }
    puts("all still beat");
    for (int i = 0; i < WORKERS; i++) { kill(workers[i], SIGKILL); waitpid(workers[i], NULL, 0); }
    return 0;
}
