// execve in all its forms: arguments, environment, same process id, errors, scripts, descriptors, descriptors as programs.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <linux/limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
static char self[PATH_MAX];

static int second(int argc, char **argv) {
    if (!strcmp(argv[1], "state")) {
        CHECK("same process", atoi(argv[2]) == getpid());
        CHECK("kept descriptor", fcntl(atoi(argv[3]), F_GETFD) == 0);
        CHECK("closed descriptor", fcntl(atoi(argv[4]), F_GETFD) == -1 && errno == EBADF);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        CHECK("handler gone", action.sa_handler == SIG_DFL);
        sigaction(SIGUSR2, NULL, &action);
        CHECK("ignore kept", action.sa_handler == SIG_IGN);
        sigset_t mask, pending;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigpending(&pending);
        CHECK("mask and pending kept", sigismember(&mask, SIGHUP) && sigismember(&pending, SIGHUP));
        CHECK("umask kept", umask(0) == 027);
        CHECK("environment replaced", getenv("ONLY") && !getenv("PATH"));
        return 0;
    }
    for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);
    printf(" with %s\n", getenv("WITH") ? getenv("WITH") : "nothing");
    return argc;
}
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }
#define IN_CHILD(name, call) do { pid_t child_ = fork(); if (child_ == 0) { call; _exit(100 + errno); } printf("%s: %d\n", name, ended(child_)); } while (0)
static void handler(int signal) { (void)signal; }
static void file(const char *name, const char *text, int mode) {
    int f = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    MUST(f >= 0 && write(f, text, strlen(text)) == (ssize_t)strlen(text));
    fchmod(f, mode);
    close(f);
}

int main(int argc, char **argv) {
    if (argc > 1) return second(argc, argv);
    MUST(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *const words[] = {"name", "one", "", "three four", NULL}, *const with[] = {"WITH=environment", NULL}, *const none[] = {NULL};
    IN_CHILD("execve", execve(self, words, with));
    IN_CHILD("empty environment", execve(self, words, none));
    IN_CHILD("execlp", execlp("sh", "sh", "-c", "exit 33", NULL));
    IN_CHILD("missing", execve("/no/such", words, with));
    IN_CHILD("directory", execve("/", words, with));
    IN_CHILD("not executable", execve("/etc/passwd", words, with));
    IN_CHILD("bad pointer", syscall(SYS_execve, 1, words, with));
    IN_CHILD("bad arguments", syscall(SYS_execve, self, 1, with));
    file("empty", "", 0700);
    IN_CHILD("empty file", execve("empty", words, with));
    file("garbage", "\x7f" "ELF but not really", 0700);
    IN_CHILD("garbage", execve("garbage", words, with));
    file("script", "#!/bin/sh\necho script $0 $1 $#\nexit 21\n", 0700);
    IN_CHILD("script", execve("./script", words, with));
    file("lost", "#!/no/such/interpreter\n", 0700);
    IN_CHILD("lost interpreter", execve("./lost", words, with));
    MUST(symlink(self, "me") == 0); // the `#!` line is short of room
    file("ours", "#!./me  an argument \n", 0700);
    IN_CHILD("script for ourselves", execve("./ours", words, with));
    file("nested", "#!./script\n", 0700);
    IN_CHILD("script of a script", execve("./nested", words, with));
    mkdir("sub", 0700);
    symlink(self, "sub/link");
    IN_CHILD("relative after chdir", (chdir("sub"), execve("./link", words, with)));
    int directory = open("sub", O_PATH | O_DIRECTORY), program = open(self, O_RDONLY), path_only = open(self, O_PATH);
    IN_CHILD("execveat", syscall(SYS_execveat, directory, "link", words, with, 0));
    IN_CHILD("execveat of a link", syscall(SYS_execveat, directory, "link", words, with, AT_SYMLINK_NOFOLLOW));
    IN_CHILD("execveat of a descriptor", syscall(SYS_execveat, path_only, "", words, with, AT_EMPTY_PATH));
    IN_CHILD("fexecve", fexecve(program, words, with));
    int memory = memfd_create("copy", 0);
    char block[65536];
    for (ssize_t n; (n = read(program, block, sizeof block)) > 0;) MUST(write(memory, block, n) == n);
    IN_CHILD("program in memory", fexecve(memory, words, with));

    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGHUP);
    umask(027);
    int kept = open("/dev/null", O_RDONLY), closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char numbers[3][16];
    snprintf(numbers[0], 16, "%d", getpid());
    snprintf(numbers[1], 16, "%d", kept);
    snprintf(numbers[2], 16, "%d", closed);
    execle(self, "exec", "state", numbers[0], numbers[1], numbers[2], NULL, (char *const[]){"ONLY=this", NULL});
    return 1;
}
