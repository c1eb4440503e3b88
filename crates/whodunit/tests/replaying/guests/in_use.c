// Saves registers that hold nothing, in two ways, and tells which of them the processor takes for used.
//@ cc: -O1 -mavx -mxsave -mxsavec
#include <cpuid.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

enum { SSE_AND_AVX = 6, HEADER = 512, AVX = 576, SIZE = 256 };

static unsigned char area[4096] __attribute__((aligned(64)));

static void tell(const char *what) {
    int zeros = 1;
    for (int i = 0; i < SIZE; i++) zeros &= area[AVX + i] == 0;
    printf("%s: %d%s\n", what, area[HEADER], zeros ? ", all stored" : "");
}

static void prepare(void) {
    memset(area, 0x5a, sizeof area);
    memset(area + HEADER, 0, 64);
    __asm__ volatile("vzeroall" ::: "memory");
}

int main(void) {
    prepare();
    __asm__ volatile("vzeroall; xsave %0" : "+m"(area) : "a"(SSE_AND_AVX), "d"(0) : "memory");
    tell("xsave");
    unsigned a, b, c, d;
    prepare();
    // Where the processor shown has no such instruction, the other one is taken twice.
    if (__get_cpuid_count(13, 1, &a, &b, &c, &d) && a & 2)
        __asm__ volatile("vzeroall; xsavec %0" : "+m"(area) : "a"(SSE_AND_AVX), "d"(0) : "memory");
    else
        __asm__ volatile("vzeroall; xsave %0" : "+m"(area) : "a"(SSE_AND_AVX), "d"(0) : "memory");
    tell("again");
    return 0;
}
