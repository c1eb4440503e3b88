// Locked instructions of every size and their flags; compare-exchange hits and misses; bit tests far from their base.
//@ cc: -O1 -mcx16
#include "check.h"

__attribute__((used, visibility("hidden"))) uint64_t flags;
enum { ARITHMETIC = 0x8d5 };
#define KEEP_FLAGS "\n\tlea -128(%%rsp), %%rsp\n\tpushfq\n\tpopq flags(%%rip)\n\tlea 128(%%rsp), %%rsp"
#define SHOW(name, value) printf("%-24s %016lx flags %03lx\n", name, (unsigned long)(value), flags & ARITHMETIC)

#define BINARY(suffix, type, op) do { \
        type m = (type)0x8123456789abcdefull; \
        __asm__ volatile("lock " #op #suffix " %1, %0" KEEP_FLAGS : "+m"(m) : "r"((type)0x7fffffffffffff11ull) : "cc", "memory"); \
        SHOW("lock " #op #suffix, m); } while (0)
#define ALL_BINARY(op) BINARY(b, uint8_t, op); BINARY(w, uint16_t, op); BINARY(l, uint32_t, op); BINARY(q, uint64_t, op)
#define UNARY(suffix, type, op) do { \
        type m = (type)0x80; \
        __asm__ volatile("stc\n\tlock " #op #suffix " %0" KEEP_FLAGS : "+m"(m) : : "cc", "memory"); SHOW("lock " #op #suffix, m); } while (0)
#define ALL_UNARY(op) UNARY(b, uint8_t, op); UNARY(w, uint16_t, op); UNARY(l, uint32_t, op); UNARY(q, uint64_t, op)
#define XADD(suffix, type) do { type m = (type)~0ull, r = 3; \
        __asm__ volatile("lock xadd" #suffix " %1, %0" KEEP_FLAGS : "+m"(m), "+r"(r) : : "cc", "memory"); \
        SHOW("lock xadd" #suffix, m); SHOW("  old", r); } while (0)
#define CMPXCHG(suffix, type, guess) do { type m = (type)0x1122334455667788ull, a = (type)(guess); \
        __asm__ volatile("lock cmpxchg" #suffix " %2, %0" KEEP_FLAGS : "+m"(m), "+a"(a) : "r"((type)0x99) : "cc", "memory"); \
        SHOW("lock cmpxchg" #suffix, m); SHOW("  accumulator", a); } while (0)
#define XCHG(suffix, type) do { type m = (type)0x1234567812345678ull, r = (type)0x90; \
        __asm__ volatile("xchg" #suffix " %1, %0" KEEP_FLAGS : "+m"(m), "+r"(r) : : "memory"); printf("xchg" #suffix " %lx %lx\n", (unsigned long)m, (unsigned long)r); } while (0)

static void wide(void) {
    static struct { uint64_t low, high; } pair __attribute__((aligned(16)));
    for (int hit = 0; hit < 2; hit++) {
        pair.low = 0x1111; pair.high = 0x2222;
        uint64_t a = hit ? 0x1111 : 5, d = hit ? 0x2222 : 6;
        unsigned char zero;
        __asm__ volatile("lock cmpxchg16b %0\n\tsetz %3" : "+m"(pair), "+a"(a), "+d"(d), "=q"(zero) : "b"(0x3333ul), "c"(0x4444ul) : "cc", "memory");
        printf("cmpxchg16b %lx %lx %lx %lx %d\n", pair.low, pair.high, a, d, zero);
        uint64_t m = 0xaaaabbbbccccddddull;
        uint32_t ea = hit ? 0xccccdddd : 1, ed = hit ? 0xaaaabbbb : 2;
        __asm__ volatile("lock cmpxchg8b %0\n\tsetz %3" : "+m"(m), "+a"(ea), "+d"(ed), "=q"(zero) : "b"(7), "c"(8) : "cc", "memory");
        printf("cmpxchg8b %lx %x %x %d\n", m, ea, ed, zero);
    }
}

static void bits(void) {
    static uint64_t map[64];
    memset(map, 0x5a, sizeof map);
    uint64_t *middle = map + 32;
    static const long offsets[] = {0, 1, 63, 64, 1000, -1, -64, -1000, 2047, -2048};
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        unsigned char was[4];
        long at = offsets[i];
        __asm__ volatile("btq %5, %4\n\tsetc %0\n\tbtsq %5, %4\n\tsetc %1\n\tlock btrq %5, %4\n\tsetc %2\n\tbtcl %k5, %4\n\tsetc %3"
                         : "=q"(was[0]), "=q"(was[1]), "=q"(was[2]), "=q"(was[3]), "+m"(*middle) : "r"(at) : "cc", "memory");
        printf("bit %ld: %d %d %d %d\n", at, was[0], was[1], was[2], was[3]);
    }
    unsigned long sum = 0;
    for (int i = 0; i < 64; i++) sum = sum * 31 + map[i];
    printf("map %lx\n", sum);
    uint32_t r = 0x80000001;
    __asm__ volatile("btl $33, %0" KEEP_FLAGS : "+r"(r) : : "cc");
    printf("bt register modulo %d\n", (int)(flags & 1));
    uint16_t w = 0;
    __asm__ volatile("lock btsw $17, %0" : "+m"(w) : : "cc", "memory");
    printf("bts imm modulo %x\n", w);
}

int main(void) {
    ALL_BINARY(add); ALL_BINARY(sub); ALL_BINARY(and); ALL_BINARY(or); ALL_BINARY(xor); ALL_BINARY(adc); ALL_BINARY(sbb);
    ALL_UNARY(inc); ALL_UNARY(dec); ALL_UNARY(neg);
    XADD(b, uint8_t); XADD(w, uint16_t); XADD(l, uint32_t); XADD(q, uint64_t);
    CMPXCHG(b, uint8_t, 0x88); CMPXCHG(w, uint16_t, 0x7788); CMPXCHG(l, uint32_t, 0x55667788); CMPXCHG(q, uint64_t, 0x1122334455667788);
    CMPXCHG(b, uint8_t, 1); CMPXCHG(w, uint16_t, 2); CMPXCHG(l, uint32_t, 3); CMPXCHG(q, uint64_t, 4);
    XCHG(b, uint8_t); XCHG(w, uint16_t); XCHG(l, uint32_t); XCHG(q, uint64_t);
    wide();
    bits();
    return 0;
}
