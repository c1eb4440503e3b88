// Threads that compute without ever calling anything are switched at any point: registers, flags and the red zone hold.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>

enum { THREADS = 4 };
// A 256-bit counter whose carries travel in CF through lea, dec and jnz; every step adds an odd number.
static uint64_t carries(uint64_t step, long rounds) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    __asm__ volatile("1: add %5, %0\n\tlea 1(%%rdx), %%rdx\n\tadc %5, %1\n\tadc %5, %2\n\tadc $0, %3\n\tdec %4\n\tjnz 1b"
                     : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(rounds) : "r"(step) : "rdx", "cc");
    return a ^ b * 3 ^ c * 5 ^ d * 7;
}
// Keeps flags alive over a conditional jump back, and sums what setcc says of them.
static uint64_t conditions(uint64_t seed, long rounds) {
    uint64_t sum = 0;
    __asm__ volatile("1: imul $0x5851f42d, %0, %0\n\tadd $0x14057b7e, %0\n\tmov $0, %%eax\n\tsetp %%al\n\tmov $0, %%edx\n\tseto %%dl\n\tlea (%1,%%rax), %1\n\tlea (%1,%%rdx,2), %1\n\tjns 2f\n\tlea 4(%1), %1\n2: dec %2\n\tjnz 1b"
                     : "+r"(seed), "+r"(sum), "+r"(rounds) : : "rax", "rdx", "cc");
    return sum;
}
__attribute__((noinline)) static uint64_t leaf(uint64_t seed, int rounds) {
    volatile uint64_t slots[8]; // fits in the red zone of this leaf
    for (int i = 0; i < 8; i++) slots[i] = seed + i;
    for (int i = 0; i < rounds; i++) slots[i & 7] = slots[(i + 3) & 7] * 31 + slots[i & 7];
    return slots[0] ^ slots[7];
}
static double series(int n) { double sum = 0; for (int i = 1; i < n; i++) sum += 1.0 / ((double)i * i); return sum; }
static uint64_t compute(int id) {
    uint64_t result = carries(0xfedcba9876543211ull * (2 * id + 1), 400000);
    result = result * 31 + conditions(id + 1, 200000);
    result = result * 31 + leaf(id, 200000);
    double sum = series(100000 + id);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return result * 31 + bits;
}
static void *body(void *id) { return (void *)compute((int)(intptr_t)id); }

int main(void) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK("as computed alone", (uint64_t)result == compute(i));
        printf("thread %d: %016lx\n", i, (unsigned long)result);
    }
    return 0;
}
