// vfork: the child borrows the parent's memory until it leaves or becomes another program.
//@ cc: -O1
//@ crashes
#include "check.h"
#include <sys/wait.h>

extern char **environ;
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }
int main(void) {
    volatile int shared = 1;
    pid_t child = vfork();
    if (child == 0) { shared = 2; _exit(7); }
    printf("exit %d, shared %d\n", ended(child), shared);
    child = vfork();
    if (child == 0) { char *const arguments[] = {"sh", "-c", "echo from sh; exit 9", NULL}; execve("/bin/sh", arguments, environ); _exit(127); }
    printf("exec %d\n", ended(child));
    volatile int error = 0;
    child = vfork();
    if (child == 0) { char *const arguments[] = {"x", NULL}; execve("/no/such/program", arguments, environ); error = errno; _exit(3); }
    printf("failed exec %d, error %d\n", ended(child), error == ENOENT);
    int sum = 0;
    for (int i = 0; i < 20; i++) { child = vfork(); if (child == 0) _exit(i); sum += ended(child); }
    printf("twenty %d\n", sum);
    child = vfork();
    if (child == 0) __builtin_trap();
    printf("trapped %d\n", ended(child));
    return 0;
}
