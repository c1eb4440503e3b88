// Branches of every kind: conditions, loop family, jump tables, calls and jumps through memory, registers and the stack.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"

// Each takes flags in rdi, loads them, and returns the bit mask of the 16 conditions: by jcc, setcc and cmovcc.
__asm__(".text\n"
        "by_jcc: lea -128(%rsp), %rsp; push %rdi; popfq; lea 128(%rsp), %rsp; mov $0, %eax\n"
        ".irp cc, o,no,b,ae,e,ne,be,a,s,ns,p,np,l,ge,le,g\n"
        "  j\\cc 1f; lea (%rax,%rax), %eax; jmp 2f\n1: lea 1(%rax,%rax), %eax\n2:\n"
        ".endr\n ret\n"
        "by_long_jcc: lea -128(%rsp), %rsp; push %rdi; popfq; lea 128(%rsp), %rsp; mov $0, %eax\n"
        ".irp cc, o,no,b,ae,e,ne,be,a,s,ns,p,np,l,ge,le,g\n"
        "  j\\cc 1f; lea (%rax,%rax), %eax; jmp 2f\n.skip 200, 0x90\n1: lea 1(%rax,%rax), %eax\n2:\n"
        ".endr\n ret\n"
        "by_setcc: lea -128(%rsp), %rsp; push %rdi; popfq; lea 128(%rsp), %rsp; mov $0, %eax\n"
        ".irp cc, o,no,b,ae,e,ne,be,a,s,ns,p,np,l,ge,le,g\n"
        "  mov $0, %ecx; set\\cc %cl; lea (%rcx,%rax,2), %eax\n"
        ".endr\n ret\n"
        "by_cmov: lea -128(%rsp), %rsp; push %rdi; popfq; lea 128(%rsp), %rsp; mov $0, %eax; mov $1, %edx\n"
        ".irp cc, o,no,b,ae,e,ne,be,a,s,ns,p,np,l,ge,le,g\n"
        "  mov $0, %ecx; cmov\\cc %rdx, %rcx; lea (%rcx,%rax,2), %eax\n"
        ".endr\n ret\n"
        // loop, loope, loopne, jrcxz, jecxz, and loop with a 32-bit counter
        "by_loop: mov %rdi, %rcx; xor %eax, %eax\n1: inc %eax; loop 1b; ret\n"
        "by_loop32: mov %rdi, %rcx; xor %eax, %eax\n1: inc %eax; addr32 loop 1b; ret\n"
        "by_loope: mov %rdi, %rcx; xor %eax, %eax\n1: inc %eax; cmp $5, %eax; setb %dl; cmp $1, %dl; loope 1b; ret\n"
        "by_loopne: mov %rdi, %rcx; xor %eax, %eax\n1: inc %eax; cmp $7, %eax; loopne 1b; ret\n"
        "by_jrcxz: mov %rdi, %rcx; mov $1, %eax; jrcxz 1f; mov $2, %eax\n1: ret\n"
        "by_jecxz: mov %rdi, %rcx; mov $1, %eax; jecxz 1f; mov $2, %eax\n1: ret\n"
        // ways to go: each adds its own digit
        "digit1: lea 1(%rax), %rax; ret\n"
        "digit2: lea 2(%rax), %rax; ret\n"
        "pops16: lea 4(%rax), %rax; ret $16\n"
        "pointer: .quad digit1, digit2\n"
        "ways: push %rbx; push %rbp; xor %eax, %eax\n"
        "  lea digit1(%rip), %rbx; call *%rbx\n"
        "  lea pointer(%rip), %rbx; call *8(%rbx); xor %ecx, %ecx; call *pointer(,%rcx,8); call *pointer+8(%rip)\n"
        "  lea digit2(%rip), %rbx; push %rbx; call *(%rsp); pop %rbx\n"             // call [rsp]
        "  push %rbx; push $0; call *8(%rsp); pop %rcx; pop %rcx\n"                 // call [rsp+8]
        "  mov %rsp, %rbp; call digit1; cmp %rsp, %rbp; jne bad\n"
        "  push $1; push $2; call pops16; cmp %rsp, %rbp; jne bad\n"                // ret imm16
        "  lea 1f(%rip), %rbx; push %rbx; ret\n  jmp bad\n1:\n"                     // ret as a jump
        "  lea 1f(%rip), %rbx; push %rbx; jmp *(%rsp)\n  jmp bad\n1: pop %rbx\n"    // jmp [rsp]
        "  lea 1f(%rip), %rbx; jmp *%rbx\n  jmp bad\n1:\n"
        "  call 1f\n1: pop %rbx; lea 1b(%rip), %rcx; cmp %rbx, %rcx; jne bad\n"     // call to the next instruction
        "  call 1f; jmp 2f\n1: addq $0, (%rsp); lea 1(%rax), %rax; ret\n2:\n"
        "  call 1f; .byte 0x0f, 0x0b; jmp 2f\n1: addq $2, (%rsp); ret\n2:\n"        // return past a ud2
        "  lea 1f(%rip), %rbx; notrack jmp *%rbx\n  jmp bad\n1: lea digit2(%rip), %rbx; notrack call *%rbx; bnd call digit1\n"
        "  bnd jmp 1f\n  jmp bad\n1: cmp %eax, %eax; .byte 0x2e; jnz bad; .byte 0x3e; jz 1f\n  jmp bad\n1: lea 100(%rax), %rax\n"
        "bad: pop %rbp; pop %rbx; ret\n");

uint64_t by_jcc(uint64_t), by_long_jcc(uint64_t), by_setcc(uint64_t), by_cmov(uint64_t), by_loop(uint64_t), by_loop32(uint64_t);
uint64_t by_loope(uint64_t), by_loopne(uint64_t), by_jrcxz(uint64_t), by_jecxz(uint64_t), ways(void);

static int table(int n) {
    switch (n) { // dense enough for a jump table
    case 0: return 10; case 1: return 21; case 2: return 32; case 3: return 43; case 4: return 54;
    case 5: return 65; case 6: return 76; case 7: return 87; case 8: return 98; case 9: return 109;
    default: return -1;
    }
}

static int threaded_code(const unsigned char *program) {
    static void *const labels[] = {&&stop, &&add, &&twice, &&minus};
    int value = 1;
    goto *labels[*program++];
add: value += 5; goto *labels[*program++];
twice: value *= 2; goto *labels[*program++];
minus: value -= 1; goto *labels[*program++];
stop: return value;
}

int main(void) {
    static const uint64_t bits[] = {0x800, 1, 0x40, 0x80, 4};
    for (int subset = 0; subset < 32; subset++) {
        uint64_t flags = 0x202;
        for (int bit = 0; bit < 5; bit++)
            if (subset >> bit & 1) flags |= bits[bit];
        printf("flags %03lx: jcc %04lx long %04lx setcc %04lx cmov %04lx\n", flags, by_jcc(flags), by_long_jcc(flags), by_setcc(flags), by_cmov(flags));
    }
    for (uint64_t n = 1; n < 20; n += 6)
        printf("%lu: loop %lu loop32 %lu loope %lu loopne %lu\n", n, by_loop(n), by_loop32(n | 1ul << 32), by_loope(n), by_loopne(n));
    printf("jrcxz %lu %lu %lu jecxz %lu %lu %lu\n", by_jrcxz(0), by_jrcxz(1), by_jrcxz(1ul << 32), by_jecxz(0), by_jecxz(1), by_jecxz(1ul << 32));
    printf("ways %lu\n", ways());
    for (volatile int n = -1; n < 11; n++)
        printf("table %d\n", table(n));
    printf("threaded %d\n", threaded_code((const unsigned char *)"\1\2\1\2\3\3\2\0"));
    return 0;
}
