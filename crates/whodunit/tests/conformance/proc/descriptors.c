// The program's descriptors are its own: the listing, the lowest free number, closing everything, duplicates to odd numbers.
//@ cc: -O1
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void list(const char *name) {
    DIR *directory = opendir("/proc/self/fd");
    MUST(directory);
    int seen[64], n = 0;
    for (struct dirent *entry; (entry = readdir(directory)) && n < 64;) if (entry->d_name[0] != '.') seen[n++] = atoi(entry->d_name);
    for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++) if (seen[j] < seen[i]) { int t = seen[i]; seen[i] = seen[j]; seen[j] = t; }
    printf("%s:", name);
    for (int i = 0; i < n; i++) printf(" %d", seen[i]);
    putchar('\n');
    closedir(directory);
}

int main(int argc, char **argv) {
    if (argc == 1) { // get rid of what was inherited from whoever runs the tests
        MUST(syscall(SYS_close_range, 3, ~0u, 0) == 0);
        execl("/proc/self/exe", argv[0], "clean", NULL);
        MUST(!"exec");
    }
    list("at start");
    int first = open("/dev/null", O_RDONLY);
    printf("lowest free %d\n", first);
    printf("next %d %d\n", dup(first), fcntl(first, F_DUPFD_CLOEXEC, 20));
    list("with more");
    int failures = 0;
    for (int i = 3; i < 256; i++) failures += close(i) == -1 && errno == EBADF;
    printf("closing 3 to 255: not open %d\n", failures);
    list("closed");
    CHECK("still able to open", open("/dev/null", O_RDONLY) == 3);
    printf("close_range %d\n", (int)syscall(SYS_close_range, 3, ~0u, 0));
    list("closed by range");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    failures = 0;
    for (rlim_t i = 3; i < limit.rlim_cur && i < 20000; i++) failures += close((int)i) == 0;
    printf("closing up to the limit: were open %d\n", failures);
    list("after that");
    CHECK("dup2 to a high number", dup2(1, 900) == 900 && write(900, "through 900\n", 12) == 12 && close(900) == 0);
    CHECK("dup2 to every low number", ({ int good = 1; for (int i = 3; i < 300; i++) good &= dup2(0, i) == i; good; }));
    CHECK("dup2 to itself", dup2(1, 1) == 1);
    CHECK("dup3 to itself", dup3(1, 1, 0) == -1 && errno == EINVAL);
    CHECK("dup of nothing", dup(5000) == -1 && errno == EBADF);
    int closed = 0;
    for (int i = 3; i < 300; i++) closed += close(i) == 0;
    printf("closed %d\n", closed);
    // The highest number that may be had, and one more.
    CHECK("highest", dup2(1, (int)limit.rlim_cur - 1) == (int)limit.rlim_cur - 1 && close((int)limit.rlim_cur - 1) == 0);
    CHECK("beyond", dup2(1, (int)limit.rlim_cur) == -1 && errno == EBADF);
    char target[64] = "";
    int null = open("/dev/null", O_RDONLY);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", null);
    CHECK("link", readlink(name, target, sizeof target - 1) > 0 && !strcmp(target, "/dev/null"));
    return 0;
}
