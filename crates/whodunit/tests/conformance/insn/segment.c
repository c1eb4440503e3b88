// Accesses relative to FS in every operand position and addressing form, and the FS and GS bases themselves.
//@ cc: -O1 -mfsgsbase -pthread
//@ threaded
#include "check.h"
#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#ifndef HWCAP2_FSGSBASE
#define HWCAP2_FSGSBASE (1 << 1)
#endif
static __thread uint64_t slots[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static __thread unsigned char bytes[64];

static void forms(void) {
    char *self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    long at = (char *)slots - self; // negative: below the thread pointer
    uint64_t r;
    __asm__ volatile("mov %%fs:(%1), %0" : "=r"(r) : "r"(at)); printf("base %lu\n", r);
    __asm__ volatile("mov %%fs:8(%1), %0" : "=r"(r) : "r"(at)); printf("displacement %lu\n", r);
    __asm__ volatile("mov %%fs:(%1,%2,8), %0" : "=r"(r) : "r"(at), "r"(2l)); printf("index %lu\n", r);
    __asm__ volatile("mov %%fs:16(%1,%2,4), %0" : "=r"(r) : "r"(at), "r"(2l)); printf("all %lu\n", r);
    __asm__ volatile("addq $10, %%fs:(%0)\n\taddq %1, %%fs:8(%0)\n\txorq %%rax, %%rax\n\txaddq %%rax, %%fs:16(%0)\n\tlock incq %%fs:24(%0)" : : "r"(at), "r"(100l) : "rax", "memory");
    __asm__ volatile("push %%fs:32(%1)\n\tpop %0" : "=r"(r) : "r"(at) : "memory"); printf("pushed %lu\n", r);
    __asm__ volatile("push $66\n\tpop %%fs:40(%0)" : : "r"(at) : "memory");
    __asm__ volatile("cmpq $7, %%fs:48(%1)\n\tsete %b0" : "=q"(r) : "r"(at), "0"(0l)); printf("compared %lu\n", r);
    __asm__ volatile("mov $8, %%eax\n\tmov $80, %%ecx\n\tlock cmpxchgq %%rcx, %%fs:56(%0)" : : "r"(at) : "rax", "rcx", "memory");
    for (int i = 0; i < 8; i++) printf("slot %d: %lu\n", i, slots[i]);
    __asm__ volatile("movdqu %%fs:(%0), %%xmm1\n\tmovdqu %%xmm1, %%fs:(%1)" : : "r"(at), "r"((char *)bytes - self) : "xmm1", "memory");
    CHECK("vector", memcmp(bytes, slots, 16) == 0);
    __asm__ volatile("movb $0x5a, %%fs:3(%0)\n\tmovzbl %%fs:3(%0), %%eax\n\tmovl %%eax, %k1" : "+r"(at), "=r"(r) : : "rax", "memory"); printf("byte %lx\n", r & 0xff);
    __asm__ volatile(".byte 0x64\n\tlea 8(%1), %0" : "=r"(r) : "r"(at)); CHECK("lea ignores the segment", r == (uint64_t)at + 8);
    // The source of a string instruction may be overridden, its target may not.
    const char *source = (char *)at;
    char *target = (char *)bytes + 32;
    unsigned long count = 16;
    __asm__ volatile("rep movsb %%fs:(%%rsi), %%es:(%%rdi)" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    CHECK("rep movs from fs", memcmp(bytes + 32, slots, 16) == 0 && source == (char *)at + 16);
    static __thread int (*pointer)(void) = NULL;
    pointer = getpagesize;
    int size;
    __asm__ volatile("mov %%rsp, %%rbx\n\tand $-16, %%rsp\n\tcall *%%fs:(%1)\n\tmov %%rbx, %%rsp" : "=a"(size) : "r"((char *)&pointer - self) : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    printf("call through fs %d\n", size);
}

static void bases(void) {
    unsigned long from_kernel = 0, self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    CHECK("ARCH_GET_FS", syscall(SYS_arch_prctl, ARCH_GET_FS, &from_kernel) == 0 && from_kernel == self);
    if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE)) { puts("fsgsbase skipped"); return; }
    CHECK("rdfsbase", _readfsbase_u64() == self);
    uint64_t block[4] = {11, 22, 33, 44}, loaded, again;
    // No call may happen while the base is changed.
    __asm__ volatile("rdfsbase %%rcx\n\twrfsbase %2\n\tmov %%fs:16, %0\n\tmovq $99, %%fs:24\n\trdfsbase %1\n\twrfsbase %%rcx" : "=&r"(loaded), "=&r"(again) : "r"(block) : "rcx", "memory");
    printf("through wrfsbase %lu %lu\n", loaded, block[3]);
    CHECK("rdfsbase after wrfsbase", again == (uint64_t)block);
    CHECK("restored", _readfsbase_u64() == self && slots[4] == 5);
}

static void gs(void) {
    uint64_t block[4] = {5, 6, 7, 8}, loaded, base = 0;
    CHECK("ARCH_SET_GS", syscall(SYS_arch_prctl, ARCH_SET_GS, block) == 0);
    __asm__ volatile("mov %%gs:8, %0\n\tmovq $60, %%gs:16" : "=r"(loaded) : : "memory");
    printf("through gs %lu %lu\n", loaded, block[2]);
    CHECK("ARCH_GET_GS", syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == (uint64_t)block);
    if (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE) {
        CHECK("rdgsbase", _readgsbase_u64() == (uint64_t)block);
        _writegsbase_u64((uint64_t)(block + 1));
        __asm__ volatile("mov %%gs:8, %0" : "=r"(loaded) : : "memory");
        printf("after wrgsbase %lu\n", loaded);
    }
    CHECK("clear", syscall(SYS_arch_prctl, ARCH_SET_GS, 0) == 0);
}

static void *in_thread(void *unused) { (void)unused; forms(); bases(); gs(); return NULL; }

int main(void) {
    in_thread(NULL);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return 0;
}
