// Code in odd places: across page boundaries, at the very end of a mapping, overlapping itself, at odd alignments, far away.
//@ cc: -O1
#include "check.h"
#include <sys/mman.h>

typedef int function(int);
enum { PAGE = 4096 };
static const unsigned char add_seven[] = {0x8d, 0x87, 0x07, 0x00, 0x00, 0x00, 0xc3}; // lea eax, [rdi+7]; ret

static unsigned char *pages(int n, void *hint, int flags) {
    unsigned char *at = mmap(hint, n * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    MUST(at != MAP_FAILED);
    return at;
}

static void crossing(void) {
    unsigned char *at = pages(2, NULL, 0);
    for (int split = 1; split < (int)sizeof add_seven; split++) {
        unsigned char *start = at + PAGE - split;
        memcpy(start, add_seven, sizeof add_seven);
        printf("split after %d: %d\n", split, ((function *)start)(split));
        mprotect(at, PAGE, PROT_READ | PROT_EXEC);
        printf("  protections differ: %d\n", ((function *)start)(split + 1));
        mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    munmap(at, 2 * PAGE);
}

static void at_the_end(void) {
    unsigned char *at = pages(2, NULL, 0);
    munmap(at + PAGE, PAGE);
    unsigned char *start = at + PAGE - sizeof add_seven;
    memcpy(start, add_seven, sizeof add_seven);
    printf("at the end: %d\n", ((function *)start)(1));
    // A branch that is never passed may have nothing mapped behind it.
    static const unsigned char conditional[] = {0x31, 0xc0, 0xff, 0xc0, 0x83, 0xf8, 0x05, 0x75, 0xf9, 0xeb, 0xf0};
    unsigned char *loop = at + PAGE - sizeof conditional; // xor eax,eax; inc eax; cmp eax,5; jne -7; jmp -16
    memcpy(loop, conditional, sizeof conditional);
    loop[-5] = 0xc3; // where the final jump lands
    printf("loop at the end: %d\n", ((function *)loop)(0));
    munmap(at, PAGE);
}

static void overlapping(void) {
    unsigned char *at = pages(1, NULL, 0);
    // mov eax, 0x04c08366 hides `add ax, 4`-like code at +1: entered at both places in turn.
    static const unsigned char code[] = {0xb8, 0x83, 0xc0, 0x05, 0x90, 0xc3};
    memcpy(at, code, sizeof code); // +0: mov eax, 0x9005c083; ret   +1: add eax, 5; nop; ret
    for (int i = 0; i < 3; i++) {
        printf("outer %x\n", ((function *)at)(0));
        int inner;
        __asm__ volatile("call *%1" : "=a"(inner) : "r"(at + 1), "0"(10 * i) : "cc", "memory");
        printf("inner %d\n", inner);
    }
    // A jump into the middle of itself: eb ff is `jmp -1`, then ff c0 is `inc eax`.
    static const unsigned char itself[] = {0x89, 0xf8, 0xeb, 0xff, 0xc0, 0xc3};
    memcpy(at + 64, itself, sizeof itself);
    printf("into itself %d\n", ((function *)(at + 64))(41));
    munmap(at, PAGE);
}

static void far_away(void) {
    static void *const hints[] = {(void *)0x10000000, (void *)0x200000000, (void *)0x3000000000, (void *)0x5500000000, (void *)0x600000000000};
    for (int i = 0; i < 5; i++) {
        unsigned char *at = pages(1, hints[i], MAP_FIXED_NOREPLACE);
        CHECK("at the hint", at == hints[i]);
        // mov eax, [rip+1]; ret; .long
        unsigned char code[] = {0x8b, 0x05, 0x01, 0x00, 0x00, 0x00, 0xc3, (unsigned char)(i + 1), 0x10, 0x20, 0x30};
        memcpy(at + 100, code, sizeof code);
        printf("far code %x\n", ((function *)(at + 100))(0));
        munmap(at, PAGE);
    }
}

static void alignments(void) {
    unsigned char *at = pages(1, NULL, 0);
    int sum = 0;
    for (int offset = 0; offset < 64; offset++) {
        memcpy(at + 128 + offset, add_seven, sizeof add_seven);
        sum += ((function *)(at + 128 + offset))(offset);
    }
    printf("alignments %d\n", sum);
    // Prefixes: redundant, repeated, at the longest length an instruction may have (15 bytes).
    static const unsigned char longest[] = {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x48, 0x81, 0xc7, 0x01, 0x01, 0x00, 0x00, 0x89, 0xf8, 0xc3};
    memcpy(at, longest, sizeof longest);
    printf("longest %d\n", ((function *)at)(1));
    munmap(at, PAGE);
}

int main(void) {
    crossing();
    at_the_end();
    overlapping();
    far_away();
    alignments();
    return 0;
}
