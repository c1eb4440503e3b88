// posix_spawn, system and popen: success, errors by return value, file actions, attributes.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int main(void) {
    pid_t child;
    char *const shell[] = {"sh", "-c", "echo spawned $VARIABLE $1; exit 5", "sh", "argument", NULL};
    char *const environment[] = {"VARIABLE=value", "PATH=/bin:/usr/bin", NULL};
    MUST(posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environment) == 0);
    printf("status %d\n", ended(child));
    CHECK("missing file", posix_spawn(&child, "/no/such/file", NULL, NULL, shell, environ) == ENOENT);
    CHECK("a directory", posix_spawn(&child, "/tmp", NULL, NULL, shell, environ) == EACCES);
    CHECK("not a program", posix_spawn(&child, "/etc/passwd", NULL, NULL, shell, environ) == EACCES);
    CHECK("missing in the path", posix_spawnp(&child, "no-such-program-anywhere", NULL, NULL, shell, environ) == ENOENT);
    char *const truth[] = {"true", NULL};
    MUST(posix_spawnp(&child, "true", NULL, NULL, truth, environ) == 0);
    printf("by path %d\n", ended(child));

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 5, "file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 5, 1);
    posix_spawn_file_actions_addclose(&actions, 5);
    char *const echo[] = {"sh", "-c", "echo into the file; [ -e /proc/self/fd/5 ] && echo open; true", NULL};
    MUST(posix_spawn(&child, "/bin/sh", &actions, NULL, echo, environ) == 0);
    printf("file actions %d\n", ended(child));
    char text[100] = "";
    int file = open("file", O_RDONLY);
    MUST(read(file, text, sizeof text - 1) > 0);
    printf("file has: %s", text);
    posix_spawn_file_actions_addclose(&actions, 9999);
    posix_spawn_file_actions_addopen(&actions, 6, "/no/such/dir/file", O_RDONLY, 0);
    CHECK("action fails", posix_spawn(&child, "/bin/sh", &actions, NULL, echo, environ) == ENOENT);

    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    char *const masked[] = {"grep", "-c", "SigBlk:.*4000$", "/proc/self/status", NULL};
    MUST(posix_spawnp(&child, "grep", NULL, &attributes, masked, environ) == 0);
    printf("mask %d\n", ended(child));

    printf("system %d\n", WEXITSTATUS(system("exit 12")));
    int killed = system("kill -9 $$; exit 1");
    printf("system killed by %d\n", WIFSIGNALED(killed) ? WTERMSIG(killed) : 0);
    CHECK("shell available", system(NULL) != 0);
    FILE *reader = popen("for i in 1 2 3; do echo line $i; done; exit 4", "r");
    while (fgets(text, sizeof text, reader)) printf("popen: %s", text);
    printf("pclose %d\n", WEXITSTATUS(pclose(reader)));
    FILE *writer = popen("tr a-z A-Z", "w");
    fprintf(writer, "to be changed\n");
    printf("pclose %d\n", pclose(writer));
    return 0;
}
