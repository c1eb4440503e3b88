// Calls that wait for a limited time are not restarted even by SA_RESTART: sockets with a time limit, timed futexes.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

static volatile int count;
static int ends[2];
static void handler(int signal) { (void)signal; count++; }
static void ticks(int on) {
    struct itimerval t = {{0, on ? 3000 : 0}, {0, on ? 3000 : 0}};
    setitimer(ITIMER_REAL, &t, NULL);
}
#define INTERRUPTED(name, call) do { count = 0; ticks(1); errno = 0; long r_ = (call); int e_ = errno; ticks(0); CHECK(name, r_ == -1 && e_ == EINTR && count > 0); } while (0)

static void all(void) {
    char byte;
    static char big[1 << 20];
    int sockets[2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timeval limit = {100, 0};
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    MUST(bind(listener, (void *)&name, sizeof name.sun_family) == 0 && listen(listener, 5) == 0);
    for (int i = 0; i < 2; i++) {
        setsockopt(sockets[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(sockets[i], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    INTERRUPTED("recv", recv(sockets[0], &byte, 1, 0));
    INTERRUPTED("read", read(sockets[0], &byte, 1));
    INTERRUPTED("accept", accept(listener, NULL, NULL));
    while (send(sockets[0], big, sizeof big, MSG_DONTWAIT) > 0) ;
    INTERRUPTED("send", send(sockets[0], big, 1000, 0));
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 100;
    INTERRUPTED("sem_timedwait", sem_timedwait(&semaphore, &end));
    close(listener); close(sockets[0]); close(sockets[1]);
}

static void *idler(void *nothing) { (void)nothing; char byte; return (void *)read(ends[0], &byte, 1); }

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    all();
    MUST(pipe(ends) == 0);
    sigset_t ticking;
    sigemptyset(&ticking);
    sigaddset(&ticking, SIGALRM);
    pthread_t thread;
    pthread_sigmask(SIG_BLOCK, &ticking, NULL);
    MUST(pthread_create(&thread, NULL, idler, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &ticking, NULL);
    all();
    MUST(write(ends[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    return 0;
}
