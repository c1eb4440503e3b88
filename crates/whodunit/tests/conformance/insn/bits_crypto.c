// BMI1, BMI2, ADX, LZCNT, MOVBE, AES, PCLMUL, SHA, VAES: each where the processor has it.
//@ cc: -O1
#include "check.h"
#include <cpuid.h>
#include <immintrin.h>

static volatile uint64_t x = 0x0123456789abcdf0, y = 0xff00f0f0aaaa5555;

__attribute__((target("sse4.1"))) static void show(const char *name, __m128i value) {
    printf("%-12s%016llx%016llx\n", name, (long long)_mm_extract_epi64(value, 1), (long long)_mm_extract_epi64(value, 0));
}
__attribute__((target("bmi"))) static void bmi1(void) {
    printf("andn %lx bextr %lx blsi %lx blsmsk %lx blsr %lx tzcnt %lx %x\n", ~x & y, (long)_bextr_u64(x, 12, 20), (long)_blsi_u64(x),
           (long)_blsmsk_u64(x), (long)_blsr_u64(x), (long)_tzcnt_u64(x), _tzcnt_u32(0));
}
__attribute__((target("bmi2"))) static void bmi2(void) {
    unsigned long long high, low = _mulx_u64(x, y, &high);
    printf("mulx %llx %llx bzhi %llx pdep %llx pext %llx\n", high, low, _bzhi_u64(x, 37), _pdep_u64(x, y), _pext_u64(x, y));
    uint64_t rorx, sarx, shlx, shrx;
    __asm__("rorx $13, %4, %0\n\tsarx %5, %4, %1\n\tshlx %5, %4, %2\n\tshrx %5, %4, %3"
            : "=&r"(rorx), "=&r"(sarx), "=&r"(shlx), "=&r"(shrx) : "r"(y), "r"(x));
    printf("rorx %lx sarx %lx shlx %lx shrx %lx\n", rorx, sarx, shlx, shrx);
}
static void adx(void) {
    uint64_t a = ~0ull, b = 5, c = ~0ull, d = 1;
    unsigned char carry, overflow;
    // Two carry chains at once: CF belongs to adcx, OF to adox.
    __asm__("xor %%eax, %%eax\n\tadcx %4, %0\n\tadox %5, %1\n\tadcx %%rax, %1\n\tadox %%rax, %0\n\tmov $0, %%eax\n\tadcx %%rax, %0\n\tsetc %2\n\tseto %3"
            : "+&r"(a), "+&r"(c), "=&q"(carry), "=&q"(overflow) : "r"(b), "r"(d) : "rax", "cc");
    printf("adx %lx %lx %d %d\n", a, c, carry, overflow);
}
__attribute__((target("movbe"))) static void movbe(void) {
    uint64_t q, memory;
    uint16_t w;
    __asm__("movbe %2, %0\n\tmovbe %3, %1" : "=r"(q), "=r"(w) : "m"(*(uint64_t *)&x), "m"(*(uint16_t *)&y));
    __asm__("movbe %1, %0" : "=m"(memory) : "r"(y));
    printf("movbe %lx %x %lx\n", q, w, memory);
}
__attribute__((target("lzcnt"))) static void lzcnt(void) { printf("lzcnt %d %d %d\n", (int)_lzcnt_u64(x), _lzcnt_u32(0), _lzcnt_u32(1)); }
__attribute__((target("aes,sse4.1"))) static void aes(void) {
    __m128i state = _mm_set_epi64x(x, y), key = _mm_set_epi64x(y, x);
    for (int i = 0; i < 5; i++)
        state = _mm_aesenc_si128(state, key);
    show("aesenc", state);
    show("aesenclast", _mm_aesenclast_si128(state, key));
    show("aesdec", _mm_aesdec_si128(state, key));
    show("aesimc", _mm_aesimc_si128(state));
    show("aeskeygen", _mm_aeskeygenassist_si128(key, 0x1b));
}
__attribute__((target("pclmul,sse4.1"))) static void pclmul(void) { show("pclmul", _mm_clmulepi64_si128(_mm_set_epi64x(x, y), _mm_set_epi64x(y, x), 0x10)); }
__attribute__((target("sha,sse4.1"))) static void sha(void) {
    __m128i a = _mm_set_epi64x(x, y), b = _mm_set_epi64x(y, x), c = _mm_set1_epi32(0x5a827999);
    show("sha1rnds4", _mm_sha1rnds4_epu32(a, b, 2));
    show("sha1nexte", _mm_sha1nexte_epu32(a, b));
    show("sha256rnds2", _mm_sha256rnds2_epu32(a, b, c));
    show("sha256msg1", _mm_sha256msg1_epu32(a, b));
    show("sha256msg2", _mm_sha256msg2_epu32(a, b));
}

int main(void) {
    unsigned a, b = 0, c = 0, d, b7 = 0, c7 = 0, ce = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    __get_cpuid_count(7, 0, &a, &b7, &c7, &d);
    __get_cpuid(0x80000001, &a, &b, &ce, &d);
#define TRY(name, bit, function) if (bit) function(); else puts(name " skipped")
    TRY("bmi1", b7 & 1 << 3, bmi1);
    TRY("bmi2", b7 & 1 << 8, bmi2);
    TRY("adx", b7 & 1 << 19, adx);
    TRY("movbe", c & 1 << 22, movbe);
    TRY("lzcnt", ce & 1 << 5, lzcnt);
    TRY("aes", c & 1 << 25, aes);
    TRY("pclmul", c & 1 << 1, pclmul);
    TRY("sha", b7 & 1 << 29, sha);
    printf("bswap %lx %x\n", __builtin_bswap64(x), __builtin_bswap32((uint32_t)x));
    return 0;
}
