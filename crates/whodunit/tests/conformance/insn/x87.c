// The x87 unit: 80-bit arithmetic, control and status words, environments, exception flags, every rounding mode.
//@ cc: -O1 -lm
#include "check.h"
#include <fenv.h>
#include <math.h>

static void show(const char *name, long double value) {
    unsigned char bytes[16] = {0};
    memcpy(bytes, &value, 10);
    printf("%-10s", name);
    for (int i = 9; i >= 0; i--)
        printf("%02x", bytes[i]);
    putchar('\n');
}
static unsigned short status(void) { unsigned short word; __asm__ volatile("fnstsw %0" : "=m"(word)); return word; }
static unsigned short control(void) { unsigned short word; __asm__ volatile("fnstcw %0" : "=m"(word)); return word; }
static void set_control(unsigned short word) { __asm__ volatile("fldcw %0" : : "m"(word)); }

static void functions(void) {
    volatile long double a = 1.0L / 3, b = 7.25L;
    show("add", a + b); show("div", a / b); show("sqrt", sqrtl(b)); show("sin", sinl(b)); show("log2", log2l(b));
    long double r;
    __asm__("fldpi" : "=t"(r)); show("fldpi", r);
    __asm__("fyl2x" : "=t"(r) : "0"(b), "u"(a) : "st(1)"); show("fyl2x", r);
    __asm__("fpatan" : "=t"(r) : "0"(b), "u"(a) : "st(1)"); show("fpatan", r);
    __asm__("fprem" : "=t"(r) : "0"(b), "u"(a)); show("fprem", r);
    __asm__("fscale" : "=t"(r) : "0"(a), "u"(b)); show("fscale", r);
    __asm__("frndint" : "=t"(r) : "0"(b)); show("frndint", r);
    __asm__("f2xm1" : "=t"(r) : "0"(a)); show("f2xm1", r);
    long double mantissa, exponent;
    __asm__("fxtract" : "=t"(mantissa), "=u"(exponent) : "0"(b)); show("mantissa", mantissa); show("exponent", exponent);
    unsigned char bcd[10];
    volatile long double number = -1234567890123.0L;
    __asm__ volatile("fldt %1\n\tfbstp %0" : "=m"(bcd) : "m"(number));
    for (int i = 9; i >= 0; i--) printf("%02x", bcd[i]);
    puts(" bcd");
}

static void rounding(void) {
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        fesetround(modes[i]);
        volatile long double one = 1, three = 3;
        volatile double done = 1, dthree = -3;
        show("1/3", one / three);
        printf("%a %ld %ld\n", done / dthree, lrintl(2.5L), lrint(-2.5));
    }
    fesetround(FE_TONEAREST);
    for (int precision = 0; precision < 4; precision++) {
        if (precision == 1) continue;
        set_control((control() & ~0x300) | precision << 8);
        volatile long double one = 1, seven = 7;
        show("precision", one / seven);
    }
    set_control(0x37f);
}

static void flags(void) {
    __asm__ volatile("fnclex");
    volatile long double zero = 0, one = 1, big = 1e4000L, result;
    result = one / zero;
    printf("divide %x %d\n", status() & 0x3f, isinf((long double)result));
    result = zero / zero;
    printf("invalid %x\n", status() & 0x3f);
    result = big * big;
    printf("overflow %x\n", status() & 0x3f);
    printf("sticky over a system call %x\n", (getppid(), status() & 0x3f));
    __asm__ volatile("fnclex");
    printf("cleared %x\n", status() & 0x3f);
    int compare[3], i = 0;
    for (long double v = -1; v <= 1; v++, i++) {
        unsigned short word;
        __asm__("fcom %2\n\tfnstsw %0" : "=a"(word) : "t"(v), "u"((long double)zero));
        compare[i] = word & 0x4500;
    }
    printf("fcom %x %x %x\n", compare[0], compare[1], compare[2]);
}

static void environments(void) {
    unsigned char saved[108], environment[28], fx[512] __attribute__((aligned(16)));
    long double r;
    __asm__ volatile("fninit\n\tfld1\n\tfldpi\n\tfldl2e\n\tfnsave %0" : "=m"(saved));
    printf("saved control %x status %x tag %x\n", *(unsigned short *)saved, *(unsigned short *)(saved + 4), *(unsigned short *)(saved + 8));
    printf("empty after fnsave %x\n", status() >> 11 & 7);
    __asm__ volatile("frstor %1\n\tfaddp\n\tfaddp" : "=t"(r) : "m"(saved)); show("frstor", r);
    __asm__ volatile("fld1\n\tfnstenv %0\n\tfldenv %0\n\tfstp %%st(0)" : "=m"(environment));
    printf("environment status %x tag %x\n", *(unsigned short *)(environment + 4), *(unsigned short *)(environment + 8));
    __asm__ volatile("fld1\n\tfldz\n\tfxsave %0\n\tfstp %%st(0)\n\tfstp %%st(0)\n\tfxrstor %0\n\tfaddp\n\tfstpt %1" : "=m"(fx), "=m"(r)); show("fxrstor", r);
    printf("fxsave control %x tag %x mxcsr %x\n", *(unsigned short *)fx, fx[4], *(unsigned *)(fx + 24));
    long double a = 1, b = 2;
    __asm__ volatile("fldt %0\n\tfldt %1\n\tfxch\n\tfstpt %0\n\tfstpt %1" : "+m"(a), "+m"(b)); show("fxch", a);
    volatile int condition = 1;
    __asm__("test %2, %2\n\tfcmovne %%st(1), %%st" : "=t"(r) : "0"(5.0L), "r"(condition), "u"(9.0L)); show("fcmov", r);
    short small; int medium; long long large;
    __asm__ volatile("fldt %3\n\tfistps %0\n\tfldt %3\n\tfistpl %1\n\tfldt %3\n\tfisttpll %2" : "=m"(small), "=m"(medium), "=m"(large) : "m"(b));
    printf("fist %d %d %lld\n", small, medium, large);
}

int main(void) {
    printf("control %x\n", control());
    functions();
    rounding();
    flags();
    environments();
    return 0;
}
