// mul, imul, div and idiv of every size and form, with their flags where the manual defines them; shifts and rotates.
//@ cc: -O1
#include "check.h"

static const uint64_t values[] = {0, 1, 2, 7, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
enum { N = sizeof values / sizeof *values };
static uint64_t digest = 14695981039346656037ull;
static void mix(uint64_t value) { digest = (digest ^ value) * 1099511628211ull; }
static void report(const char *name) { printf("%-8s %016lx\n", name, digest); }

#define MULTIPLY(type, suffix, letter)                                                                              \
    for (int i = 0; i < N; i++)                                                                                    \
        for (int j = 0; j < N; j++) {                                                                              \
            uint64_t a = values[i], d = 0x77;                                                                       \
            unsigned char c, o;                                                                                     \
            __asm__("mul" #suffix " %" #letter "4\n\tsetc %2\n\tseto %3" : "+a"(a), "+d"(d), "=&q"(c), "=&q"(o) : "r"(values[j]) : "cc"); mix(a); mix(d); mix(c * 2 + o); \
            a = values[i];                                                                                          \
            __asm__("imul" #suffix " %" #letter "4\n\tsetc %2\n\tseto %3" : "+a"(a), "+d"(d), "=&q"(c), "=&q"(o) : "r"(values[j]) : "cc"); mix(a); mix(d); mix(c * 2 + o); \
        }                                                                                                          \
    report("mul" #suffix)

#define DIVIDE(type, stype, suffix, letter)                                                                         \
    for (int i = 0; i < N; i++)                                                                                    \
        for (int j = 0; j < N; j++) {                                                                              \
            if ((type)values[j] == 0) continue;                                                                     \
            uint64_t a = values[i], d = 0;                                                                          \
            __asm__("div" #suffix " %" #letter "2" : "+a"(a), "+d"(d) : "r"(values[j]) : "cc"); mix(a); mix(d);      \
            if ((stype)values[j] == -1) continue;                                                                   \
            a = values[i]; d = (stype)a < 0 ? ~0ull : 0;                                                            \
            __asm__("idiv" #suffix " %" #letter "2" : "+a"(a), "+d"(d) : "r"(values[j]) : "cc"); mix(a); mix(d);     \
        }                                                                                                          \
    report("div" #suffix)

#define SHIFT(op, type, suffix)                                                                                     \
    for (int i = 0; i < N; i++)                                                                                    \
        for (int count = 0; count < 70; count++) {                                                                  \
            type v = values[i];                                                                                     \
            unsigned char c, z, s;                                                                                  \
            __asm__("cmp %%al, %%al\n\tmov %4, %%ecx\n\tstc\n\t" #op #suffix " %%cl, %0\n\tsetc %1\n\tsetz %2\n\tsets %3" : "+&r"(v), "=&q"(c), "=&q"(z), "=&q"(s) : "r"(count) : "rcx", "cc"); \
            mix(v); mix(c * 4 + z * 2 + s);                                                                          \
        }                                                                                                          \
    report(#op #suffix)
#define SHIFTS(op) SHIFT(op, uint8_t, b); SHIFT(op, uint16_t, w); SHIFT(op, uint32_t, l); SHIFT(op, uint64_t, q)

int main(void) {
    MULTIPLY(uint16_t, w, w); MULTIPLY(uint32_t, l, k); MULTIPLY(uint64_t, q, q);
    DIVIDE(uint16_t, int16_t, w, w); DIVIDE(uint32_t, int32_t, l, k); DIVIDE(uint64_t, int64_t, q, q);
    SHIFTS(shl); SHIFTS(shr); SHIFTS(sar); SHIFTS(rol); SHIFTS(ror); SHIFTS(rcl); SHIFTS(rcr);
    for (int i = 0; i < N; i++)
        for (int count = 0; count < 64; count++) {
            uint64_t v = values[i], w = values[i];
            __asm__("shld %%cl, %1, %0" : "+r"(v) : "r"(0x123456789abcdefull), "c"(count) : "cc");
            __asm__("shrd $11, %1, %0" : "+r"(w) : "r"(v) : "cc");
            mix(v); mix(w);
        }
    report("shld");
    for (int i = 1; i < N; i++) {
        uint64_t f, r;
        __asm__("bsf %1, %0" : "=r"(f) : "r"(values[i]) : "cc");
        __asm__("bsr %1, %0" : "=r"(r) : "r"(values[i]) : "cc");
        mix(f * 64 + r);
    }
    report("bsf");
    uint64_t a = 0x80;
    __asm__("cbtw\n\tcwtl\n\tcltq" : "+a"(a)); mix(a);
    uint64_t d;
    __asm__("cwtd\n\tcltd\n\tcqto" : "+a"(a), "=d"(d)); mix(d);
    report("sign");
    return 0;
}
