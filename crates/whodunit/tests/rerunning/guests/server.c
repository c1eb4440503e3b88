// A server: the main thread accepts connections and takes commands from all but the first; that one a worker answers. They wait for events, and
// the main thread wakes the worker by an eventfd. A reload leaves no configuration for a moment, unless the server is "repaired".
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct config {
    long size;
};

static struct config *config;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wake, handed = -1, repaired;
static volatile sig_atomic_t stopping;

static void terminate(int signal)
{
    (void)signal;
    stopping = 1;
}

static void watch(int set, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event))
        exit(2);
}

static struct config *made(long size)
{
    struct config *new = malloc(sizeof *new);
    new->size = size;
    return new;
}

static void set_config(struct config *new)
{
    pthread_mutex_lock(&lock);
    config = new;
    pthread_mutex_unlock(&lock);
}

static void reload(long size)
{
    if (!repaired)
        set_config(NULL); /* clear */
    set_config(made(size)); /* renew */
}

static void answer(int connection)
{
    char line[64], said[64];
    long n_read = read(connection, line, sizeof line);
    if (n_read <= 0) {
        close(connection);
        return;
    }
    pthread_mutex_lock(&lock); /* enter */
    long size = config->size; /* use */
    pthread_mutex_unlock(&lock);
    if (write(connection, said, snprintf(said, sizeof said, "size %ld\n", size)) < 0)
        exit(3);
}

static void *work(void *unused)
{
    int set = epoll_create1(0);
    watch(set, wake);
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(set, &event, 1, -1) < 1)
            continue;
        if (event.data.fd != wake) {
            answer(event.data.fd);
            continue;
        }
        unsigned long n_woken;
        if (read(wake, &n_woken, sizeof n_woken) != sizeof n_woken)
            exit(4);
        if (stopping)
            return unused;
        watch(set, handed);
    }
}

static void wake_worker(void)
{
    unsigned long one = 1;
    if (write(wake, &one, sizeof one) != sizeof one)
        exit(5);
}

static void command(int connection)
{
    char line[64] = "";
    if (read(connection, line, sizeof line - 1) <= 0) {
        close(connection);
        return;
    }
    if (!strncmp(line, "stop", 4))
        stopping = 1; /* stop */
    else
        reload(atol(line));
    if (write(connection, "done\n", 5) != 5)
        exit(6);
}

static void welcome(int listener, int set)
{
    int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (handed >= 0) {
        watch(set, connection);
        return;
    }
    handed = connection;
    wake_worker();
}

static int listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 8) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        exit(7);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argc, char **argv)
{
    pthread_t worker;
    struct sigaction action = {.sa_handler = terminate};
    repaired = argc > 1 && !strcmp(argv[1], "repaired");
    sigaction(SIGTERM, &action, NULL);
    set_config(made(1));
    wake = eventfd(0, 0);
    pthread_create(&worker, NULL, work, NULL);
    int listener = listen_somewhere(), set = epoll_create1(0);
    watch(set, listener);
    while (!stopping) {
        struct epoll_event event;
        if (epoll_wait(set, &event, 1, 500) < 1)
            continue;
        if (event.data.fd == listener)
            welcome(listener, set);
        else
            command(event.data.fd);
    }
    wake_worker();
    pthread_join(worker, NULL);
    puts("stopped");
    return 0;
}
