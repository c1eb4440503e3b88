// Code that changes: patched in place, between two protections, through a second mapping, replaced by another mapping,
// and just ahead of the instruction that patches it.
//@ cc: -O1
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };
typedef int function(void);
static void emit(unsigned char *at, int value) { at[0] = 0xb8; memcpy(at + 1, &value, 4); at[5] = 0xc3; } // mov eax, value; ret

static void in_place(void) {
    unsigned char *code = mmap(NULL, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(code != MAP_FAILED);
    long sum = 0;
    for (int i = 0; i < 300; i++) { emit(code, i); sum += ((function *)code)(); }
    printf("in place %ld\n", sum);
    // Data beside code on one page: writes to the data must not confuse the code.
    emit(code, 5);
    volatile int *data = (volatile int *)(code + 2048);
    for (int i = 0; i < 300; i++) { *data += ((function *)code)(); }
    printf("data beside code %d\n", *data);
    // Two functions calling each other; only the callee changes.
    static const unsigned char caller[] = {0xe8, 0xfb, 0x00, 0x00, 0x00, 0xff, 0xc0, 0xc3}; // call +0x100; inc eax; ret
    memcpy(code, caller, sizeof caller);
    sum = 0;
    for (int i = 0; i < 50; i++) { emit(code + 0x100, i * 2); sum += ((function *)code)(); }
    printf("callee changes %ld\n", sum);
    // The very next instruction: mov byte [rip+1], 7; mov eax, 1; ret
    static const unsigned char next[] = {0xc6, 0x05, 0x01, 0x00, 0x00, 0x00, 0x07, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xc3};
    memcpy(code + 512, next, sizeof next);
    for (int i = 0; i < 3; i++) { code[512 + 8] = 1; printf("next instruction %d\n", ((function *)(code + 512))()); }
    // A loop that counts by patching its own immediate: add byte [rip+8], 1; inc ecx; cmp ecx, 10; jne; mov eax, imm; ret
    static const unsigned char loop[] = {0x31, 0xc9, 0x80, 0x05, 0x08, 0x00, 0x00, 0x00, 0x01, 0xff, 0xc1, 0x83, 0xf9, 0x0a, 0x75, 0xf2, 0xb8, 0x00, 0x00, 0x00, 0x00, 0xc3};
    memcpy(code + 1024, loop, sizeof loop);
    printf("loop on itself %d\n", ((function *)(code + 1024))());
    munmap(code, PAGE);
}

static void flipping(void) {
    unsigned char *code = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        mprotect(code, 2 * PAGE, RW);
        emit(code + i % 7 * 16, i);
        mprotect(code, 2 * PAGE, RX);
        sum += ((function *)(code + i % 7 * 16))();
    }
    printf("flipping %ld\n", sum);
    munmap(code, 2 * PAGE);
}

static void dual_mapped(void) {
    int memory = memfd_create("jit", 0);
    MUST(ftruncate(memory, PAGE) == 0);
    unsigned char *writable = mmap(NULL, PAGE, RW, MAP_SHARED, memory, 0), *runnable = mmap(NULL, PAGE, RX, MAP_SHARED, memory, 0);
    MUST(writable != MAP_FAILED && runnable != MAP_FAILED);
    long sum = 0;
    for (int i = 0; i < 200; i++) { emit(writable, i * 3); sum += ((function *)runnable)(); }
    printf("dual mapped %ld\n", sum);
    sum = 0;
    for (int i = 0; i < 50; i++) { unsigned char bytes[6]; emit(bytes, i); MUST(pwrite(memory, bytes, 6, 64) == 6); sum += ((function *)(runnable + 64))(); }
    printf("written by the kernel %ld\n", sum);
    close(memory);
}

static void replaced(void) {
    unsigned char *at = mmap(NULL, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int i = 0; i < 50; i++) {
        munmap(at, PAGE);
        unsigned char *fresh = mmap(at, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        MUST(fresh == at);
        emit(at, 1000 + i);
        sum += ((function *)at)();
    }
    printf("unmapped and mapped anew %ld\n", sum);
    sum = 0;
    unsigned char *spare = mmap(NULL, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) {
        emit(spare, i);
        MUST(mremap(spare, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
        sum += ((function *)at)();
        spare = mmap(spare, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    printf("moved over %ld\n", sum);
    emit(at, 8);
    printf("before %d\n", ((function *)at)());
    madvise(at, PAGE, MADV_DONTNEED);
    emit(at, 9);
    printf("after being thrown away %d\n", ((function *)at)());
    munmap(at, PAGE);
}

int main(void) {
    in_place();
    flipping();
    dual_mapped();
    replaced();
    return 0;
}
