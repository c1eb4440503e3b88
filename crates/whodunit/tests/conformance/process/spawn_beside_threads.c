// A child that resets its signals before it executes leaves those of its parent's other threads alone.
//@ cc: -O2 -pthread
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static char first[64], second[64];
static volatile sig_atomic_t handled;

static void handler(int signal) {
    handled += signal == SIGUSR1;
}

static void *spawn(void *result) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGUSR1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    // The child meets the other thread twice: in between it waits with its signals reset.
    posix_spawn_file_actions_addopen(&actions, 3, first, O_RDONLY | O_CLOEXEC, 0);
    posix_spawn_file_actions_addopen(&actions, 0, second, O_RDONLY, 0);
    char *arguments[] = {"/bin/cat", NULL};
    MUST(posix_spawn(result, arguments[0], &actions, &attributes, arguments, environ) == 0);
    return NULL;
}

int main(void) {
    pid_t child = 0;
    pthread_t thread;
    int status;
    snprintf(first, sizeof first, "first.%d", getpid());
    snprintf(second, sizeof second, "second.%d", getpid());
    MUST(mkfifo(first, 0600) == 0 && mkfifo(second, 0600) == 0);
    signal(SIGUSR1, handler);
    MUST(pthread_create(&thread, NULL, spawn, &child) == 0);
    int met = open(first, O_WRONLY);
    for (int i = 0; i < 20; i++)
        raise(SIGUSR1);
    CHECK("handled", handled == 20);
    int fd = open(second, O_WRONLY);
    MUST(met >= 0 && write(fd, "through\n", 8) == 8);
    close(fd);
    pthread_join(thread, NULL);
    CHECK("child", waitpid(child, &status, 0) == child && status == 0);
    unlink(first);
    unlink(second);
}
