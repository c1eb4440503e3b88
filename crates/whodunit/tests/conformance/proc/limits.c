// Resource limits: few descriptors, stack size over exec, file size, core; what getrlimit and sysconf say.
//@ cc: -O1
//@ crashes
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

__attribute__((noinline)) static int deep(int n) { volatile char pad[1000]; pad[0] = 1; return n ? deep(n - 1) + pad[0] : 0; }
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc > 1) {
        getrlimit(RLIMIT_STACK, &limit);
        printf("stack limit after exec %lu\n", (unsigned long)limit.rlim_cur);
        printf("deep %d\n", deep(atoi(argv[1])));
        return 0;
    }
    getrlimit(RLIMIT_STACK, &limit);
    printf("stack %lu\n", (unsigned long)limit.rlim_cur);
    getrlimit(RLIMIT_CORE, &limit);
    printf("core %lu\n", (unsigned long)limit.rlim_cur);
    CHECK("sysconf agrees", getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)sysconf(_SC_OPEN_MAX) == limit.rlim_cur);
    pid_t child = fork();
    if (child == 0) {
        MUST(close_range(3, ~0u, 0) == 0); // what was inherited from whoever runs the tests
        limit.rlim_cur = 16;
        CHECK("lower the number of files", setrlimit(RLIMIT_NOFILE, &limit) == 0);
        int opened = 0;
        while (open("/dev/null", O_RDONLY) >= 0) opened++;
        printf("opened %d, error %d\n", opened, errno == EMFILE);
        CHECK("pipe fails too", ({ int ends[2]; pipe(ends) == -1 && errno == EMFILE; }));
        CHECK("closing one helps", close(9) == 0 && open("/dev/null", O_RDONLY) == 9);
        CHECK("no descriptor to spare, yet a child", ({ pid_t grandchild = fork(); if (!grandchild) _exit(3); ended(grandchild) == 3; }));
        limit.rlim_cur = 3;
        CHECK("lower still", setrlimit(RLIMIT_NOFILE, &limit) == 0 && dup(1) == -1 && errno == EMFILE);
        _exit(0);
    }
    printf("child %d\n", ended(child));
    child = fork();
    if (child == 0) {
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 32 << 20;
        MUST(setrlimit(RLIMIT_STACK, &limit) == 0);
        execl("/proc/self/exe", argv[0], "20000", NULL); // about 20 MB of frames
        _exit(99);
    }
    printf("larger stack %d\n", ended(child));
    child = fork();
    if (child == 0) {
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 256 << 10;
        MUST(setrlimit(RLIMIT_STACK, &limit) == 0);
        execl("/proc/self/exe", argv[0], "2000", NULL); // 2 MB in a quarter of one
        _exit(99);
    }
    printf("smaller stack %d\n", ended(child));
    child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
        int file = open("limited", O_CREAT | O_WRONLY, 0600);
        signal(SIGXFSZ, SIG_IGN);
        char block[600] = {0};
        ssize_t a = write(file, block, 600), b = write(file, block, 600), c = write(file, block, 600);
        CHECK("file size", a == 600 && b == 400 && c == -1 && errno == EFBIG);
        signal(SIGXFSZ, SIG_DFL);
        (void)!write(file, block, 1);
        _exit(1);
    }
    printf("file size %d\n", ended(child));
    child = fork();
    if (child == 0) {
        getrlimit(RLIMIT_CPU, &limit);
        limit.rlim_cur = 1000;
        CHECK("processor time", setrlimit(RLIMIT_CPU, &limit) == 0 && getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur == 1000);
        _exit(0);
    }
    ended(child);
    printf("umask %o\n", umask(077));
    close(open("private", O_CREAT | O_WRONLY, 0666));
    struct stat status;
    stat("private", &status);
    printf("mode %o, umask %o\n", status.st_mode & 0777, umask(022));
    CHECK("page size", sysconf(_SC_PAGESIZE) == 4096);
    CHECK("processors", sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    CHECK("bad resource", getrlimit(99, &limit) == -1 && errno == EINVAL);
    return 0;
}
