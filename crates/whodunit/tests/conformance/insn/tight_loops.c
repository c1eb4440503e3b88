// Loops that jump to themselves: counters, compare-exchange, flag-carried sums, loops of one instruction.
//@ cc: -O1
#include "check.h"

int main(void) {
    uint64_t count = 1000000, sum = 0, carry = 0;
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(count) : : "cc");
    printf("dec jnz %lu\n", count);
    count = 300000;
    __asm__ volatile("1: add %0, %1\n\tsub $1, %0\n\tja 1b" : "+r"(count), "+r"(sum) : : "cc");
    printf("sum %lu\n", sum);
    count = 100000;
    __asm__ volatile("1: loop 1b" : "+c"(count));
    printf("loop %lu\n", count);
    // A carry chain that lives in CF through dec and jnz.
    uint64_t a[64], b[64];
    for (int i = 0; i < 64; i++) a[i] = ~0ull - i, b[i] = i * 3;
    uint64_t *pa = a, *pb = b;
    count = 64;
    __asm__ volatile("clc\n1: mov (%2), %%rax\n\tadc %%rax, (%1)\n\tlea 8(%1), %1\n\tlea 8(%2), %2\n\tdec %0\n\tjnz 1b\n\tsbb %3, %3" : "+r"(count), "+r"(pa), "+r"(pb), "+r"(carry) : : "rax", "cc", "memory");
    sum = 0;
    for (int i = 0; i < 64; i++) sum = sum * 31 + a[i];
    printf("adc chain %lx carry %lx\n", sum, carry);
    uint64_t cell = 0;
    for (int i = 0; i < 100000; i++) {
        __asm__ volatile("1: mov %0, %%rax\n\tlea 3(%%rax), %%rcx\n\tlock cmpxchg %%rcx, %0\n\tjne 1b" : "+m"(cell) : : "rax", "rcx", "cc", "memory");
    }
    printf("cmpxchg %lu\n", cell);
    double x = 0;
    for (int i = 1; i < 200000; i++) x += 1.0 / i;
    printf("float %.12f\n", x);
    uint32_t lfsr = 1, rounds = 0;
    do { lfsr = (lfsr >> 1) ^ (-(lfsr & 1) & 0xa3000000u); rounds++; } while (rounds < 500000 && lfsr != 1);
    printf("lfsr %x after %u\n", lfsr, rounds);
    // Two loops that share a tail, entered from both ends.
    count = 1000; sum = 0;
    __asm__ volatile("jmp 2f\n1: add $1, %1\n2: add $2, %1\n\tdec %0\n\tjz 3f\n\ttest $1, %0\n\tjz 1b\n\tjmp 2b\n3:" : "+r"(count), "+r"(sum) : : "cc");
    printf("two entries %lu\n", sum);
    return 0;
}
