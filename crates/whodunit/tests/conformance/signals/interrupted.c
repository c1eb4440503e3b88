// Blocking calls and signals: restarted with SA_RESTART, EINTR without; sleeps that always return early with the rest.
//@ cc: -O1 -pthread
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static volatile int count;
static int ends[2], write_after;
static void handler(int signal) { (void)signal; if (++count == write_after) (void)!write(ends[1], "x", 1); }
static void install(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
    count = 0;
}
// Ticks go on until the call has been reached by one; nothing depends on when.
static void ticks(int on) {
    struct itimerval t = {{0, on ? 3000 : 0}, {0, on ? 3000 : 0}};
    setitimer(ITIMER_REAL, &t, NULL);
}
#define INTERRUPTED(name, call) do { install(0); ticks(1); errno = 0; long r_ = (call); int e_ = errno; ticks(0); CHECK(name, r_ == -1 && e_ == EINTR && count > 0); } while (0)

int main(void) {
    char byte;
    int sockets[2], poller = epoll_create1(0);
    MUST(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    INTERRUPTED("read", read(ends[0], &byte, 1));
    INTERRUPTED("recv", recv(sockets[0], &byte, 1, 0));
    INTERRUPTED("poll", poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, -1));
    INTERRUPTED("epoll_wait", epoll_wait(poller, &(struct epoll_event){0}, 1, -1));
    INTERRUPTED("pause", pause());
    INTERRUPTED("select", select(0, NULL, NULL, NULL, NULL));
    struct timespec wanted = {10, 0}, rest = {0, 0};
    INTERRUPTED("nanosleep", nanosleep(&wanted, &rest));
    CHECK("time remains", rest.tv_sec >= 1 && rest.tv_sec <= 9 && rest.tv_nsec > 0);
    install(0); ticks(1);
    CHECK("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, &rest) == EINTR && rest.tv_sec >= 1);
    CHECK("sleep", sleep(10) >= 9);
    ticks(0);
    pid_t child = fork();
    if (child == 0) { pause(); _exit(0); }
    INTERRUPTED("waitpid", waitpid(child, NULL, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);

    // With SA_RESTART the read goes on over the first ticks and returns the byte that the fifth writes.
    write_after = 5;
    install(SA_RESTART); ticks(1);
    CHECK("read restarts", read(ends[0], &byte, 1) == 1 && byte == 'x' && count >= 5);
    ticks(0);
    write_after = 0;
    install(SA_RESTART); ticks(1);
    errno = 0;
    CHECK("poll never restarts", poll(&(struct pollfd){sockets[0], POLLIN, 0}, 1, -1) == -1 && errno == EINTR);
    ticks(0);
    child = fork();
    if (child == 0) { struct timespec t = {0, 30000000}; nanosleep(&t, NULL); _exit(9); }
    int status = 0;
    install(SA_RESTART); ticks(1);
    CHECK("waitpid restarts", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
    ticks(0);
    CHECK("ticks came meanwhile", count > 0);
    // A full pipe: what was written before the signal counts.
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    static char big[20000];
    install(0); ticks(1);
    CHECK("partial write", write(ends[1], big, sizeof big) == 4096);
    ticks(0);
    return 0;
}
