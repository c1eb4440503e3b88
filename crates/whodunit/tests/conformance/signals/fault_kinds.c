// Synchronous faults: codes and addresses of SIGSEGV, SIGBUS, SIGFPE, SIGILL for each cause; reads, writes, execution, split accesses.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf out;
static volatile struct { int signal, code; uintptr_t address, pc; long error; } seen;
static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen.signal = signal; seen.code = info->si_code; seen.address = (uintptr_t)info->si_addr; seen.pc = registers[REG_RIP];
    seen.error = registers[REG_ERR] & 0x16; // write, user, fetch; whether a closed page was present is the kernel's own affair
    siglongjmp(out, 1);
}
static void report(const char *name, const void *base) {
    if (!seen.signal) { printf("%s: no fault\n", name); return; }
    // The address of SIGFPE and SIGILL is that of the code.
    long offset = seen.signal == SIGFPE || seen.signal == SIGILL ? (long)(seen.address - seen.pc) : (long)(seen.address - (uintptr_t)base);
    printf("%s: signal %d code %d at %+ld, error %lx\n", name, seen.signal, seen.code, offset, seen.error);
    seen.signal = 0;
}
#define TRY(name, base, statement) do { if (sigsetjmp(out, 1) == 0) { statement; } report(name, base); } while (0)

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, NULL);
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(none != MAP_FAILED && two != MAP_FAILED);
    mprotect(two + 4096, 4096, PROT_READ);
    volatile char *bad = none;
    TRY("read of an unmapped page", NULL, (void)*(volatile char *)0x10);
    TRY("write to an unmapped page", NULL, *(volatile char *)0x20 = 1);
    TRY("read of a closed page", none, (void)bad[5]);
    TRY("write to a closed page", none, bad[6] = 1);
    TRY("write to a read-only page", two, *(volatile char *)(two + 4100) = 1);
    TRY("read of it", two, (void)*(volatile char *)(two + 4100));
    TRY("split write, second half bad", two, *(volatile uint64_t *)(two + 4092) = ~0ull);
    printf("first half %s\n", *(uint32_t *)(two + 4092) == 0 ? "unchanged" : "changed");
    TRY("locked write to a read-only page", two, __atomic_fetch_add((int *)(two + 4096), 1, __ATOMIC_SEQ_CST));
    TRY("memset into it", two, memset(two + 4000, 7, 200));
    TRY("rep stosb into it", two, ({ char *d = two + 4090; unsigned long n = 20; __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(9) : "memory"); }));
    printf("bytes before the fault %d %d\n", two[4090], two[4095]);
    TRY("non-canonical", NULL, (void)*(volatile char *)0x8000000000000000ull);
    TRY("kernel address", NULL, (void)*(volatile char *)0xffffffff80000000ull);
    TRY("call of null", NULL, ((void (*volatile)(void))NULL)());
    CHECK("pc is null", seen.pc == 0);
    TRY("call of data", two, ((void (*)(void))(void *)two)());
    CHECK("pc is the data", seen.pc == (uintptr_t)two);
    TRY("call of a closed page", none, ((void (*)(void))(void *)(none + 3))());
    CHECK("pc is the page", seen.pc == (uintptr_t)none + 3);
    TRY("jump to a non-canonical address", NULL, ((void (*volatile)(void))0x1234000000000000)());
    TRY("return to null", NULL, __asm__ volatile("push $0\n\tret" ::: "memory"));
    volatile int zero = 0, result = 1;
    TRY("integer division", NULL, result = result / zero);
    CHECK("result untouched", result == 1);
    int file = memfd_create("short", 0);
    MUST(file >= 0 && ftruncate(file, 4096) == 0);
    char *mapped = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    TRY("inside the file", mapped, mapped[100] = 1);
    TRY("beyond the file", mapped, mapped[5000] = 1);
    ftruncate(file, 0);
    TRY("in a truncated file", mapped, (void)*(volatile char *)mapped);
    static volatile double one = 1, nought = 0;
    unsigned csr = 0x1f80 & ~0x200;
    TRY("floating-point division, unmasked", NULL, __asm__ volatile("ldmxcsr %0" : : "m"(csr)); one = one / nought);
    csr = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(csr));
    return 0;
}
