// Large things: a gigabyte of malloc, a hundred thousand frames of recursion, many small mappings, guard pages.
//@ cc: -O1 -pthread -Wno-infinite-recursion
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

__attribute__((noinline)) static long recurse(long n) { char pad[16]; __asm__ volatile("" : : "r"(pad) : "memory"); return n ? recurse(n - 1) + 1 : 0; }
static void *in_thread(void *unused) { (void)unused; return (void *)recurse(20000); }

int main(void) {
    char *block = malloc(1ul << 30);
    MUST(block);
    for (size_t i = 0; i < 1ul << 30; i += 64ul << 20) block[i] = i >> 26;
    int wrong = 0;
    for (size_t i = 0; i < 1ul << 30; i += 64ul << 20) wrong += block[i] != (char)(i >> 26);
    CHECK("a gigabyte", wrong == 0);
    free(block);
    printf("recursion %ld\n", recurse(100000));
    pthread_t thread;
    void *depth;
    MUST(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    pthread_join(thread, &depth);
    printf("in a thread %ld\n", (long)depth);
    char *maps[1000];
    for (int i = 0; i < 1000; i++) {
        maps[i] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(maps[i] != MAP_FAILED);
        MUST(mprotect(maps[i] + 4096, 4096, PROT_NONE) == 0);
        maps[i][4095] = i;
    }
    for (int i = 0; i < 1000; i++) { wrong += maps[i][4095] != (char)i; munmap(maps[i], 8192); }
    CHECK("a thousand mappings", wrong == 0);
    void *pieces[2000];
    unsigned seed = 1;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2000; i++) { seed = seed * 1103515245 + 12345; size_t size = seed >> 16 & 2047; pieces[i] = malloc(size + 1); memset(pieces[i], i, size + 1); }
        for (int i = 0; i < 2000; i++) { wrong += *(unsigned char *)pieces[i] != (unsigned char)i; free(pieces[i]); }
    }
    CHECK("ten thousand blocks", wrong == 0);
    void *aligned;
    CHECK("aligned", posix_memalign(&aligned, 1 << 16, 100) == 0 && (uintptr_t)aligned % (1 << 16) == 0);
    return 0;
}
