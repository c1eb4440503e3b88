// An executable that is linked to a fixed address.
//@ cc: -fno-pie -no-pie
#include "check.h"

extern char __executable_start, etext, edata, end;
static int data = 3;
static int zero[1000];

int main(void) {
    CHECK("at its fixed address", (uintptr_t)&__executable_start == 0x400000);
    CHECK("code is where it was linked", (uintptr_t)main < 0x500000);
    CHECK("segments in order", &etext < &edata && &edata <= &end);
    // Absolute 32-bit addresses are legal here.
    uint32_t low;
    __asm__("movl $data_marker, %0\n\t.pushsection .rodata\ndata_marker: .long 77\n\t.popsection" : "=r"(low));
    CHECK("absolute immediate address", *(int *)(uintptr_t)low == 77);
    int loaded;
    __asm__("movl data_marker, %0" : "=r"(loaded));
    CHECK("absolute memory operand", loaded == 77);
    int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum |= zero[i];
    CHECK("bss is zero", sum == 0);
    return data;
}
