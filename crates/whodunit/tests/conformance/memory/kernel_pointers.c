// Bad pointers given to the kernel come back as EFAULT, never as a signal; good ones across pages are written in full.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define FAULTS(name, ...) do { long r_ = syscall(__VA_ARGS__); printf("%s: %s\n", name, r_ == -1 && errno == EFAULT ? "EFAULT" : r_ == -1 ? strerror(errno) : "no error"); } while (0)
int main(void) {
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *bad = (char *)16;
    MUST(two != MAP_FAILED);
    munmap(two + 4096, 4096);
    int ends[2], zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    MUST(pipe(ends) == 0);
    FAULTS("write", SYS_write, ends[1], bad, 10);
    FAULTS("write to nowhere", SYS_write, null, bad, 10);
    FAULTS("read", SYS_read, zero, bad, 10);
    FAULTS("open", SYS_open, bad, O_RDONLY, 0);
    FAULTS("stat", SYS_stat, "/", bad);
    FAULTS("pipe", SYS_pipe, bad);
    FAULTS("clock_gettime", SYS_clock_gettime, CLOCK_MONOTONIC, bad);
    FAULTS("nanosleep", SYS_nanosleep, bad, NULL);
    FAULTS("poll", SYS_poll, bad, 1, 0);
    FAULTS("rt_sigaction", SYS_rt_sigaction, SIGUSR1, bad, NULL, 8);
    FAULTS("rt_sigprocmask", SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8);
    FAULTS("getcwd", SYS_getcwd, bad, 100);
    FAULTS("uname", SYS_uname, bad);
    FAULTS("readlink", SYS_readlink, "/proc/self/exe", bad, 10);
    FAULTS("readv", SYS_readv, zero, bad, 1);
    FAULTS("socketpair", SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, bad);
    FAULTS("wait4", SYS_wait4, -1, bad, 0, NULL);
    FAULTS("futex", SYS_futex, bad, 0, 0, NULL, NULL, 0);
    FAULTS("kernel address", SYS_read, zero, 0xffffffff80000000, 10);
    MUST(write(ends[1], "0123456789", 10) == 10);
    long got = read(ends[0], two + 4090, 10);
    printf("read across the end: %ld %s\n", got, got == -1 ? strerror(errno) : "bytes");
    mprotect(two, 4096, PROT_READ);
    FAULTS("read into a read-only page", SYS_read, zero, two, 10);
    struct iovec parts[2] = {{"good", 4}, {bad, 4}};
    long written = writev(null, parts, 2);
    printf("half bad writev %ld\n", written);
    struct stat *straddling = (struct stat *)(two + 4096 - sizeof(struct stat));
    mprotect(two, 4096, PROT_READ | PROT_WRITE);
    CHECK("stat at the very end", stat("/", straddling) == 0 && S_ISDIR(straddling->st_mode));
    CHECK("too long", syscall(SYS_read, zero, two, 100) == 100 && two[99] == 0);
    return 0;
}
