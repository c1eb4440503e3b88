// mremap: growing, moving, to a fixed place, keeping the old; mprotect that splits and joins, with a fault check on every page.
//@ cc: -O1
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };
static sigjmp_buf out;
static void handler(int signal) { siglongjmp(out, signal); }
static int reads(volatile char *p) { int s = sigsetjmp(out, 1); if (!s) (void)*p; return !s; }
static int writes(volatile char *p) { int s = sigsetjmp(out, 1); if (!s) *p = *p; return !s; }
static void picture(const char *name, char *at, int pages) {
    printf("%s: ", name);
    for (int i = 0; i < pages; i++) putchar(writes(at + i * PAGE + 7) ? 'w' : reads(at + i * PAGE + 7) ? 'r' : '-');
    putchar('\n');
}
static char *map(int pages, int protection) { char *p = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); MUST(p != MAP_FAILED); return p; }

int main(void) {
    signal(SIGSEGV, handler);
    char *a = map(10, RW);
    picture("fresh", a, 10);
    mprotect(a + 2 * PAGE, 3 * PAGE, PROT_READ); picture("read-only middle", a, 10);
    mprotect(a + 3 * PAGE, PAGE, PROT_NONE); picture("closed inside", a, 10);
    mprotect(a + 3 * PAGE, 5 * PAGE, PROT_READ); picture("across", a, 10);
    mprotect(a, 10 * PAGE, PROT_NONE); picture("closed", a, 10);
    mprotect(a, 10 * PAGE, RW); picture("open", a, 10);
    munmap(a + 4 * PAGE, PAGE); picture("hole", a, 10);
    CHECK("protect over a hole fails", mprotect(a, 10 * PAGE, PROT_READ) == -1 && errno == ENOMEM);
    picture("up to the hole", a, 10);
    for (int i = 0; i < 500; i++) { mprotect(a, PAGE, i & 1 ? RW : PROT_READ); if (i & 1) a[0] = i; }
    printf("flipped, last %d\n", a[0]);

    char *b = map(4, RW);
    for (int i = 0; i < 4; i++) b[i * PAGE] = 'a' + i;
    char *c = mremap(b, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    MUST(c != MAP_FAILED);
    printf("grown: %c%c%c%c %d\n", c[0], c[PAGE], c[2 * PAGE], c[3 * PAGE], c[7 * PAGE]);
    CHECK("shrunk in place", mremap(c, 8 * PAGE, 2 * PAGE, 0) == c && !reads(c + 2 * PAGE));
    char *target = map(6, RW);
    target[5 * PAGE] = 'z';
    char *d = mremap(c, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    CHECK("moved to a place", d == target && d[0] == 'a' && d[PAGE] == 'b' && d[2 * PAGE] == 0 && d[5 * PAGE] == 'z' && !reads(c));
    char *e = (char *)syscall(SYS_mremap, d, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    CHECK("old one stays, empty", e != MAP_FAILED && e[0] == 'a' && reads(d) && d[0] == 0);
    char *wall = map(2, RW);
    munmap(wall + PAGE, PAGE);
    mmap(wall + PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK("cannot grow in place", mremap(wall, PAGE, 2 * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK("nothing there", mremap((void *)0x10000, PAGE, PAGE, 0) == MAP_FAILED && errno == EFAULT);
    CHECK("crooked", mremap(wall + 1, PAGE, PAGE, 0) == MAP_FAILED && errno == EINVAL);
    char *big = malloc(1 << 20);
    memset(big, 7, 1 << 20);
    for (int i = 2; i < 20; i++) { big = realloc(big, (size_t)i << 20); big[((size_t)i << 20) - 1] = i; }
    CHECK("realloc keeps", big[0] == 7 && big[(1 << 20) - 1] == 7 && big[(10 << 20) - 1] == 10);
    free(big);
    return 0;
}
