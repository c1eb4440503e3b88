// fork: copies of memory, descriptors that are shared, exit statuses, fifty short children, grandchildren, wait with usage.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int global = 1;
static int ended(pid_t child) { int status; MUST(waitpid(child, &status, 0) == child); return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int main(void) {
    int local = 2, *heap = malloc(sizeof *heap), *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *heap = 3;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        CHECK("another process", getpid() != parent && getppid() == parent);
        global++; local++; ++*heap;
        *shared = global + local + *heap;
        exit(*shared);
    }
    printf("child gave %d\n", ended(child));
    printf("ours %d %d %d, shared %d\n", global, local, *heap, *shared);
    int file = memfd_create("offset", 0), ends[2];
    MUST(pipe(ends) == 0);
    child = fork();
    if (child == 0) { (void)!write(file, "abcdef", 6); close(ends[0]); for (int i = 0; i < 5; i++) (void)!write(ends[1], &i, sizeof i); _exit(0); }
    close(ends[1]);
    int n, sum = 0;
    while (read(ends[0], &n, sizeof n) == sizeof n) sum += n + 1;
    printf("through the pipe %d\n", sum);
    ended(child);
    printf("shared offset %ld\n", (long)lseek(file, 0, SEEK_CUR));

    pid_t children[50];
    for (int i = 0; i < 50; i++) if ((children[i] = fork()) == 0) _exit(i * 3 % 256);
    int wrong = 0;
    for (int i = 0; i < 50; i++) wrong += ended(children[i]) != i * 3 % 256;
    printf("fifty children, wrong %d\n", wrong);
    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(8);
        _exit(ended(grandchild) + 1);
    }
    printf("grandchild %d\n", ended(child));
    child = fork();
    struct rusage usage;
    if (child == 0) { // works until the accounting has noticed
        volatile double x = 1;
        do { for (int i = 0; i < 100000; i++) x = x * 1.0000001; getrusage(RUSAGE_SELF, &usage); } while (usage.ru_utime.tv_sec == 0 && usage.ru_utime.tv_usec == 0);
        _exit(0);
    }
    int status;
    CHECK("wait4", wait4(child, &status, 0, &usage) == child && usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec > 0 && usage.ru_maxrss > 0);
    CHECK("no children", wait(NULL) == -1 && errno == ECHILD);
    CHECK("not our child", waitpid(1, NULL, 0) == -1 && errno == ECHILD);
    // Daemon style: the middle process leaves, the last one is in a session of its own.
    MUST(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        CHECK("new session", setsid() == getpid() && getsid(0) == getpid());
        if (fork()) _exit(0);
        close(ends[0]);
        (void)!write(ends[1], "daemon", 7);
        _exit(0);
    }
    ended(child);
    close(ends[1]);
    char text[16] = "";
    size_t got = 0;
    ssize_t r;
    while ((r = read(ends[0], text + got, sizeof text - got)) > 0) got += r;
    printf("%s\n", text);
    return 0;
}
