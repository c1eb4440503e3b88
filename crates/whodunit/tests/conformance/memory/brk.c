// brk and sbrk: growth, contents, shrinking, reuse as zero, and malloc living beside it.
//@ cc: -O1
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>

static sigjmp_buf out;
static void handler(int signal) { siglongjmp(out, signal); }
int main(void) {
    signal(SIGSEGV, handler);
    puts("the output buffer exists before the first measurement");
    char *start = sbrk(0);
    CHECK("known", start != (void *)-1);
    char *block = sbrk(1 << 20);
    CHECK("grows from the old end", block == start && (char *)sbrk(0) == start + (1 << 20));
    int set = 0;
    for (int i = 0; i < 1 << 20; i += 512) set |= block[i];
    CHECK("zero", set == 0);
    memset(block, 0x5a, 1 << 20);
    CHECK("shrink", sbrk(-(1 << 19)) == start + (1 << 20) && (char *)sbrk(0) == start + (1 << 19));
    CHECK("first half kept", block[1000] == 0x5a && block[(1 << 19) - 1] == 0x5a);
    int signal_seen = sigsetjmp(out, 1);
    if (!signal_seen) { (void)*(volatile char *)(start + (1 << 19) + 8192); }
    printf("beyond the end: signal %d\n", signal_seen);
    sbrk(1 << 19);
    set = 0;
    for (char *p = (char *)(((uintptr_t)start + (1 << 19) + 4095) & ~4095ul); p < start + (1 << 20); p++) set |= *p;
    CHECK("grown again, zero", set == 0);
    for (int i = 0; i < 100; i++) { sbrk(100); }
    CHECK("odd sizes", (char *)sbrk(0) == start + (1 << 20) + 10000);
    char *pieces[50];
    for (int i = 0; i < 50; i++) { pieces[i] = malloc(3000); memset(pieces[i], i, 3000); }
    int wrong = 0;
    for (int i = 0; i < 50; i++) { wrong += pieces[i][2999] != i; free(pieces[i]); }
    CHECK("malloc beside it", wrong == 0);
    long end = syscall(SYS_brk, 0);
    CHECK("absurd request changes nothing", syscall(SYS_brk, end + (1l << 46)) == end && syscall(SYS_brk, 0) == end);
    CHECK("below the start changes nothing", syscall(SYS_brk, 4096) == end);
    CHECK("sbrk too large", sbrk(1l << 46) == (void *)-1 && errno == ENOMEM);
    return 0;
}
