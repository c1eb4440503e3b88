// An executable that asks for an executable stack may run code it builds there, nested functions included.
//@ cc: -z execstack -O0
#include "check.h"

static int apply(int (*f)(int), int x) { return f(x); }

int main(void) {
    int base = 100;
    int add_base(int x) { return x + base; } // needs a trampoline on the stack
    printf("%d\n", apply(add_base, 5));
    base = 200;
    printf("%d\n", apply(add_base, 5));
    unsigned char code[] = {0x8d, 0x47, 0x03, 0xc3}; // lea eax, [rdi+3]; ret
    printf("%d\n", apply((int (*)(int))(void *)code, 4));
    code[2] = 9;
    printf("%d\n", apply((int (*)(int))(void *)code, 4));
    return 0;
}
