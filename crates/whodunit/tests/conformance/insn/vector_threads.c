// Vector registers, x87 stack and control words belong to a thread: other threads come and go, they stay.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 200 };
static atomic_int running;
static int has_avx;

// Loads xmm0..xmm15 from `pattern`, gives others a chance to run in between, and counts the registers that changed.
static int hold_sse(const unsigned char *pattern, int by_call) {
    unsigned char after[256];
    long spins = 3000;
    __asm__ volatile(
        "movdqu (%1), %%xmm0\n\tmovdqu 16(%1), %%xmm1\n\tmovdqu 32(%1), %%xmm2\n\tmovdqu 48(%1), %%xmm3\n\tmovdqu 64(%1), %%xmm4\n\tmovdqu 80(%1), %%xmm5\n\tmovdqu 96(%1), %%xmm6\n\tmovdqu 112(%1), %%xmm7\n\t"
        "movdqu 128(%1), %%xmm8\n\tmovdqu 144(%1), %%xmm9\n\tmovdqu 160(%1), %%xmm10\n\tmovdqu 176(%1), %%xmm11\n\tmovdqu 192(%1), %%xmm12\n\tmovdqu 208(%1), %%xmm13\n\tmovdqu 224(%1), %%xmm14\n\tmovdqu 240(%1), %%xmm15\n\t"
        "test %k3, %k3\n\tjz 1f\n\tmov $24, %%eax\n\tsyscall\n\tjmp 2f\n1: dec %0\n\tjnz 1b\n2:\n\t" // sched_yield, or a loop that may be preempted
        "movdqu %%xmm0, (%2)\n\tmovdqu %%xmm1, 16(%2)\n\tmovdqu %%xmm2, 32(%2)\n\tmovdqu %%xmm3, 48(%2)\n\tmovdqu %%xmm4, 64(%2)\n\tmovdqu %%xmm5, 80(%2)\n\tmovdqu %%xmm6, 96(%2)\n\tmovdqu %%xmm7, 112(%2)\n\t"
        "movdqu %%xmm8, 128(%2)\n\tmovdqu %%xmm9, 144(%2)\n\tmovdqu %%xmm10, 160(%2)\n\tmovdqu %%xmm11, 176(%2)\n\tmovdqu %%xmm12, 192(%2)\n\tmovdqu %%xmm13, 208(%2)\n\tmovdqu %%xmm14, 224(%2)\n\tmovdqu %%xmm15, 240(%2)"
        : "+r"(spins) : "r"(pattern), "r"(after), "r"(by_call)
        : "rax", "rcx", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return memcmp(pattern, after, sizeof after) != 0;
}
// The upper halves of two wide registers.
static int hold_avx(const unsigned char *pattern, int by_call) {
    unsigned char after[64];
    long spins = 3000;
    __asm__ volatile("vmovdqu (%1), %%ymm3\n\tvmovdqu 32(%1), %%ymm12\n\ttest %k3, %k3\n\tjz 1f\n\tmov $24, %%eax\n\tsyscall\n\tjmp 2f\n1: dec %0\n\tjnz 1b\n2: vmovdqu %%ymm3, (%2)\n\tvmovdqu %%ymm12, 32(%2)\n\tvzeroupper"
                     : "+r"(spins) : "r"(pattern), "r"(after), "r"(by_call) : "rax", "rcx", "r11", "cc", "memory", "xmm3", "xmm12");
    return memcmp(pattern, after, sizeof after) != 0;
}
// Two values deep on the x87 stack and a control word of the thread's own.
static int hold_x87(double value, int by_call) {
    double top, below;
    long spins = 3000;
    unsigned short mine = 0x37f & ~0x300, after;
    __asm__ volatile("fldcw %6\n\tfldl %4\n\tfldpi\n\ttest %k5, %k5\n\tjz 1f\n\tmov $24, %%eax\n\tsyscall\n\tjmp 2f\n1: dec %0\n\tjnz 1b\n2: fstpl %1\n\tfstpl %2\n\tfnstcw %3\n\tfninit"
                     : "+r"(spins), "=m"(top), "=m"(below), "=m"(after) : "m"(value), "r"(by_call), "m"(mine) : "rax", "rcx", "r11", "cc", "memory");
    return below != value || top < 3.14159 || top > 3.1416 || after != mine;
}
static void *body(void *argument) {
    int id = (int)(intptr_t)argument, wrong = 0;
    unsigned char pattern[256];
    for (int i = 0; i < 256; i++) pattern[i] = i * (2 * id + 3) + id;
    running++;
    while (running < THREADS) sched_yield();
    for (int round = 0; round < ROUNDS; round++) {
        wrong += hold_sse(pattern, round & 1);
        if (has_avx) wrong += hold_avx(pattern, round & 1);
        wrong += hold_x87(id + round / 16.0, round & 1);
    }
    return (void *)(intptr_t)wrong;
}
int main(void) {
    pthread_t threads[THREADS];
    void *wrong;
    __builtin_cpu_init();
    has_avx = __builtin_cpu_supports("avx");
    for (intptr_t i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        printf("thread %d: changed %ld times\n", i, (long)(intptr_t)wrong);
    }
    return 0;
}
