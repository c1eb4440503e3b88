// Odds and ends: cpuid, time stamp, random numbers, xgetbv, xlat, prefetch and nop forms, fences, cache hints, sizes of addresses.
//@ cc: -O1
#include "check.h"
#include <cpuid.h>
#include <sys/mman.h>

static uint64_t tsc(void) { uint32_t a, d; __asm__ volatile("lfence\n\trdtsc" : "=a"(a), "=d"(d)); return (uint64_t)d << 32 | a; }

static void identification(void) {
    unsigned a = 0, b, c = 0, d = 0;
    CHECK("cpuid", __get_cpuid(0, &a, &b, &c, &d) && a >= 7);
    CHECK("cpuid 1", __get_cpuid(1, &a, &b, &c, &d) && (d >> 26 & 1));
    uint64_t before = tsc(), after = before;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = tsc();
        if (now < after) { CHECK("time goes forward", 0); return; }
        after = now;
    }
    CHECK("time stamp", after > before);
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
    CHECK("rdtscp", ((uint64_t)high << 32 | low) > after);
    __get_cpuid(1, &a, &b, &c, &d);
    if (c >> 30 & 1) {
        uint64_t first = 0, second = 0;
        unsigned char good = 0;
        for (int i = 0; i < 10 && !good; i++) __asm__ volatile("rdrand %0\n\tsetc %1" : "=r"(first), "=q"(good));
        for (int i = 0; i < 10; i++) __asm__ volatile("rdrand %0" : "=r"(second));
        CHECK("rdrand", good && first != second);
    } else puts("rdrand skipped");
    if (c >> 27 & 1) {
        __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        CHECK("xgetbv has x87 and SSE", (a & 3) == 3);
    } else puts("xgetbv skipped");
}

static void hints(void) {
    static char line[256] __attribute__((aligned(64)));
    __asm__ volatile("prefetcht0 %0\n\tprefetcht1 %0\n\tprefetcht2 %0\n\tprefetchnta %0\n\tprefetchw %0\n\tclflush %0\n\tmfence\n\tlfence\n\tsfence\n\tpause" : "+m"(line));
    __asm__ volatile("prefetcht0 0\n\tprefetchnta (%0)" : : "r"(1ul << 63)); // hints never fault
    __asm__ volatile("nop\n\t.byte 0x66,0x90\n\tnopl (%%rax)\n\tnopl 8(%%rax,%%rax,1)\n\tnopw 512(%%rax,%%rax,1)\n\tnopl 0x12345678(%%rip)\n\t.byte 0xf3,0x0f,0x1e,0xfa\n\t.byte 0xf3,0x90\n\t.byte 0x0f,0x1f,0x84,0,0,0,0,0\n\txchg %%rax,%%rax\n\txchg %%ax,%%ax\n\tfnop\n\tfwait" ::: "memory");
    // Instructions newer than many processors that decode as nops where they are missing.
    __asm__ volatile(".byte 0x0f,0x18,0x20\n\t.byte 0xf3,0x48,0x0f,0x1e,0xc8" : : "a"(line) : "memory");
    puts("hints pass");
}

static void addresses(void) {
    unsigned char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    MUST(low != MAP_FAILED);
    for (int i = 0; i < 256; i++) low[i] = 255 - i;
    uint64_t at = (uintptr_t)low | 0xabcd00000000, r;
    __asm__("movzbl 5(%k1), %k0" : "=r"(r) : "r"(at)); printf("addr32 base %lu\n", r);
    __asm__("movzbl 5(%k1,%k2,4), %k0" : "=r"(r) : "r"(at), "r"(0xffff000000000003ul)); printf("addr32 index %lu\n", r);
    __asm__("lea 5(%k1,%k2,4), %0" : "=r"(r) : "r"(~0ul), "r"(1ul)); printf("addr32 lea wraps %lx\n", r);
    __asm__("lea 5(%1,%2,4), %k0" : "=r"(r) : "r"(~0ul), "r"(1ul)); printf("lea to 32 bits %lx\n", r);
    __asm__("lea (%1,%2,2), %w0" : "=r"(r) : "r"(0x12345ul), "r"(1ul), "0"(~0ul)); printf("lea to 16 bits %lx\n", r);
    __asm__("xlatb" : "=a"(r) : "b"(low), "0"(0x1100000007ul)); printf("xlat %lx\n", r);
    munmap(low, 4096);
}

static void partial_registers(void) {
    uint64_t r = 0x1122334455667788;
    __asm__("movb $0x99, %b0" : "+q"(r)); printf("low byte %lx\n", r);
    __asm__("movb $0xaa, %%ah" : "+a"(r)); printf("high byte %lx\n", r);
    __asm__("movw $0xbbbb, %w0" : "+r"(r)); printf("word %lx\n", r);
    __asm__("movl %k0, %k0" : "+r"(r)); printf("dword clears the top %lx\n", r);
    __asm__("xchg %%ah, %%al" : "+a"(r)); printf("xchg halves %lx\n", r);
    __asm__("addb %%ah, %%al\n\tadcb $0, %%ah" : "+a"(r) : : "cc"); printf("add halves %lx\n", r);
    r = 0x8877665544332211;
    __asm__("movsbw %%ah, %w0\n\tcmpxchgb %%ah, %%al" : "+a"(r) : : "cc"); printf("movsx %lx\n", r);
    uint64_t s = 5;
    __asm__("cmp %0, %0\n\tcmovnel %k1, %k0" : "+r"(r) : "r"(s) : "cc"); printf("cmov not taken clears the top %lx\n", r);
    uint64_t cnt; __asm__("mov $-1, %0\n\tpopcnt %k1, %k0" : "=&r"(cnt) : "r"(0xfful) : "cc"); printf("popcnt %lx\n", cnt);
    uint16_t selector[2]; __asm__ volatile("mov %%cs, %0\n\tmov %%ss, %1" : "=r"(selector[0]), "=r"(selector[1])); printf("selectors %x %x\n", selector[0], selector[1]);
}

int main(void) {
    identification();
    hints();
    addresses();
    partial_registers();
    return 0;
}
