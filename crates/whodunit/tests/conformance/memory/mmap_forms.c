// mmap in all forms and with all errors; munmap of parts; mincore, madvise, msync, mlock.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { PAGE = 4096 };
static sigjmp_buf out;
static void handler(int signal) { siglongjmp(out, signal); }
static int faults(volatile char *p) { int s = sigsetjmp(out, 1); if (!s) (void)*p; return s; }
static char *map(void *at, size_t size, int protection, int flags) { return mmap(at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0); }
enum { RW = PROT_READ | PROT_WRITE };

static void anonymous(void) {
    char *a = map(NULL, 10 * PAGE, RW, 0);
    MUST(a != MAP_FAILED);
    memset(a, 1, 10 * PAGE);
    CHECK("fixed over the middle", map(a + 3 * PAGE, 2 * PAGE, RW, MAP_FIXED) == a + 3 * PAGE && a[3 * PAGE] == 0 && a[5 * PAGE] == 1 && a[3 * PAGE - 1] == 1);
    CHECK("no replacing", map(a + PAGE, PAGE, RW, MAP_FIXED_NOREPLACE) == MAP_FAILED && errno == EEXIST);
    CHECK("unmap a hole", munmap(a + 6 * PAGE, PAGE) == 0 && faults(a + 6 * PAGE) == SIGSEGV && !faults(a + 7 * PAGE) && !faults(a + 6 * PAGE - 1));
    CHECK("hint is taken when free", map(a + 6 * PAGE, PAGE, RW, 0) == a + 6 * PAGE);
    char *elsewhere = map(a + PAGE, PAGE, RW, 0);
    CHECK("hint is only a hint", elsewhere != MAP_FAILED && elsewhere != a + PAGE);
    CHECK("not replaced", map(a + 20 * PAGE, PAGE, RW, MAP_FIXED_NOREPLACE) == a + 20 * PAGE || errno == EEXIST);
    CHECK("unmap twice is harmless", munmap(a, 10 * PAGE) == 0 && munmap(a, 10 * PAGE) == 0);
    char *low = map(NULL, PAGE, RW, MAP_32BIT);
    CHECK("low two gigabytes", low != MAP_FAILED && (uintptr_t)low < 1ul << 31);
    char *reserve = map(NULL, 1ul << 40, PROT_NONE, MAP_NORESERVE);
    CHECK("a terabyte reserved", reserve != MAP_FAILED && faults(reserve + (1ul << 39)) == SIGSEGV);
    CHECK("part of it opened", mprotect(reserve + (1ul << 39), PAGE, RW) == 0 && !faults(reserve + (1ul << 39)));
    CHECK("given back", munmap(reserve, 1ul << 40) == 0);
    char *growing = map(NULL, 4 * PAGE, RW, MAP_GROWSDOWN | MAP_STACK);
    CHECK("grows down", growing != MAP_FAILED && !faults(growing));
    char *populated = map(NULL, 8 * PAGE, RW, MAP_POPULATE);
    unsigned char resident[8] = {0};
    CHECK("mincore", mincore(populated, 8 * PAGE, resident) == 0 && (resident[0] & 1) && (resident[7] & 1));
    populated[0] = 9;
    CHECK("thrown away", madvise(populated, PAGE, MADV_DONTNEED) == 0 && populated[0] == 0);
    CHECK("mincore of nothing", munmap(populated, 8 * PAGE) == 0 && mincore(populated, PAGE, resident) == -1 && errno == ENOMEM);
    CHECK("zero length", mmap(NULL, 0, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    CHECK("neither shared nor private", mmap(NULL, PAGE, RW, MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    CHECK("fixed and crooked", map((void *)0x10000001, PAGE, RW, MAP_FIXED) == MAP_FAILED && errno == EINVAL);
    CHECK("far too large", map(NULL, 1ul << 47, RW, MAP_NORESERVE) == MAP_FAILED && errno == ENOMEM);
    CHECK("crooked unmap", munmap((void *)0x10000001, PAGE) == -1 && errno == EINVAL);
    CHECK("crooked protect", mprotect((void *)0x10000001, PAGE, RW) == -1 && errno == EINVAL);
    CHECK("protect of nothing", mprotect(populated, PAGE, RW) == -1 && errno == ENOMEM);
    char *locked = map(NULL, PAGE, RW, 0);
    CHECK("lock", mlock(locked, PAGE) == 0 && munlock(locked, PAGE) == 0);
    // Sizes are rounded up, and the rest of the last page is usable.
    char *odd = map(NULL, 100, RW, 0);
    odd[4095] = 3;
    CHECK("rounded", odd[4095] == 3 && munmap(odd, 1) == 0 && faults(odd) == SIGSEGV);
}

static void files(void) {
    int file = open("mapped", O_CREAT | O_RDWR, 0600);
    MUST(file >= 0 && ftruncate(file, 3 * PAGE) == 0 && pwrite(file, "hello", 5, PAGE) == 5);
    char *shared = mmap(NULL, 3 * PAGE, RW, MAP_SHARED, file, 0), *private = mmap(NULL, PAGE, RW, MAP_PRIVATE, file, PAGE), *again = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, PAGE);
    MUST(shared != MAP_FAILED && private != MAP_FAILED && again != MAP_FAILED);
    CHECK("contents", !memcmp(private, "hello", 5) && !memcmp(shared + PAGE, "hello", 5));
    private[0] = 'J';
    shared[PAGE + 1] = 'E';
    char text[6] = "";
    CHECK("private stays private", pread(file, text, 5, PAGE) == 5 && !strcmp(text, "hEllo"));
    CHECK("shared is seen everywhere", again[1] == 'E' && private[1] == 'e');
    MUST(pwrite(file, "O", 1, PAGE + 4) == 1);
    CHECK("write to the file is seen", again[4] == 'O' && shared[PAGE + 4] == 'O');
    CHECK("msync", msync(shared, 3 * PAGE, MS_SYNC) == 0);
    close(file);
    CHECK("outlives the descriptor", again[1] == 'E');
    file = open("mapped", O_RDONLY);
    CHECK("no write through a read-only file", mmap(NULL, PAGE, RW, MAP_SHARED, file, 0) == MAP_FAILED && errno == EACCES);
    CHECK("crooked offset", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 100) == MAP_FAILED && errno == EINVAL);
    CHECK("bad descriptor", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 999, 0) == MAP_FAILED && errno == EBADF);
    int *anonymous = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) { *anonymous = 77; _exit(0); }
    waitpid(child, NULL, 0);
    CHECK("shared over fork", *anonymous == 77);
    int memory = memfd_create("double", 0);
    MUST(ftruncate(memory, PAGE) == 0);
    char *one = mmap(NULL, PAGE, RW, MAP_SHARED, memory, 0), *two = mmap(NULL, PAGE, RW, MAP_SHARED, memory, 0);
    strcpy(one, "seen twice");
    CHECK("double mapping", one != two && !strcmp(two, "seen twice"));
}

int main(void) {
    signal(SIGSEGV, handler);
    signal(SIGBUS, handler);
    anonymous();
    files();
    return 0;
}
