// MXCSR: rounding modes, sticky flags, flush-to-zero; kept over system calls and calls into libc, separate in threads.
//@ cc: -O1 -pthread -frounding-math
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sys/time.h>
#include <xmmintrin.h>

static volatile double one = 1, three = 3, zero = 0, tiny = 1e-308;

static void *in_thread(void *expected) {
    unsigned inherited = _mm_getcsr();
    _mm_setcsr(0x1f80 | 0x4000);
    getppid();
    return (void *)(intptr_t)(inherited == (unsigned)(uintptr_t)expected && (_mm_getcsr() & 0x6000) == 0x4000);
}

int main(void) {
    printf("default %x\n", _mm_getcsr());
    for (unsigned mode = 0; mode < 4; mode++) {
        _mm_setcsr(0x1f80 | mode << 13);
        volatile double third = one / three;
        int rounded;
        __asm__("cvtsd2si %1, %0" : "=r"(rounded) : "x"(mode & 1 ? -2.5 : 2.5));
        printf("mode %u: %a %d\n", mode, third, rounded);
    }
    _mm_setcsr(0x1f80);
    volatile double result = one / zero;
    printf("divide by zero %x\n", _mm_getcsr() & 0x3f);
    result = zero / zero;
    printf("invalid %x\n", _mm_getcsr() & 0x3f);
    result = tiny * tiny;
    printf("underflow %x\n", _mm_getcsr() & 0x3f);
    result = one / three;
    printf("inexact %x\n", _mm_getcsr() & 0x3f);
    (void)result;
    char *block = malloc(100000);
    free(block);
    struct timeval now;
    gettimeofday(&now, NULL);
    getppid();
    printf("after system calls %x\n", _mm_getcsr());
    _mm_setcsr(0x1f80 | 0x8040);
    volatile double denormal = tiny / 16;
    printf("flush to zero %a\n", denormal);
    _mm_setcsr(0x1f80);
    denormal = tiny / 16;
    printf("denormal %a\n", denormal);

    _mm_setcsr(0x3f80);
    pthread_t thread;
    void *good;
    MUST(pthread_create(&thread, NULL, in_thread, (void *)0x3f80ul) == 0);
    pthread_join(thread, &good);
    CHECK("a new thread inherits, a change stays in it", good != NULL && _mm_getcsr() == 0x3f80);
    return 0;
}
