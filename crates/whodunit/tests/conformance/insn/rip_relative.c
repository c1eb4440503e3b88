// RIP-relative operands in every position, with immediates of every size behind them, and with 32-bit addresses.
//@ cc: -O1 -fPIE -pie
#include "check.h"

__asm__(".text\n"
        "rip_forms: lea rip_data(%rip), %rdi\n"
        "  mov rip_data(%rip), %rax; mov %rax, rip_out(%rip)\n"
        "  movb $0x11, rip_out+8(%rip); movw $0x2222, rip_out+10(%rip); movl $0x33333333, rip_out+12(%rip); movq $-0x44444444, rip_out+16(%rip)\n"
        "  addb $5, rip_out+8(%rip); addw $0x505, rip_out+10(%rip); addl $0x5050505, rip_out+12(%rip); addq $0x5050505, rip_out+16(%rip)\n"
        "  addl $5, rip_out+12(%rip); shlw $3, rip_out+10(%rip); shrl $1, rip_out+12(%rip); imul $1000, rip_data+8(%rip), %rcx; mov %rcx, rip_out+24(%rip)\n"
        "  imul $3, rip_data+8(%rip), %ecx; mov %rcx, rip_out+32(%rip); cmpl $0x11223344, rip_data+16(%rip); sete rip_out+40(%rip); testb $0x10, rip_data(%rip); setnz rip_out+41(%rip)\n"
        "  movdqu rip_data(%rip), %xmm0; pshufd $0x1b, rip_aligned(%rip), %xmm1; paddd %xmm1, %xmm0; movdqu %xmm0, rip_out+48(%rip); pinsrw $3, rip_data+2(%rip), %xmm0; movdqu %xmm0, rip_out+64(%rip)\n"
        "  push rip_data(%rip); pop rip_out+80(%rip); xchg %rax, rip_out+80(%rip); mov $2, %ecx; lock xadd %ecx, rip_out+88(%rip); lock cmpxchg %ecx, rip_out+92(%rip)\n"
        "  btsl $5, rip_out+96(%rip); shldl $4, %ecx, rip_out+100(%rip); movzbl rip_data+3(%rip), %ecx; mov %ecx, rip_out+104(%rip); movslq rip_data+4(%rip), %rcx; mov %rcx, rip_out+112(%rip)\n"
        "  cvtsi2sdl rip_data+16(%rip), %xmm0; addsd rip_double(%rip), %xmm0; movsd %xmm0, rip_out+120(%rip); fldl rip_double(%rip); fmull rip_double(%rip); fstpl rip_out+128(%rip)\n"
        "  call *rip_pointer(%rip); mov %rax, rip_out+136(%rip); mov $7, %eax; mull rip_data+16(%rip); mov %rax, rip_out+144(%rip); cmovnz rip_data+8(%rip), %rax; mov %rax, rip_out+152(%rip)\n"
        "  incb rip_out+160(%rip); negl rip_out+164(%rip); notw rip_out+162(%rip); lea rip_data+40(%rip), %rax; sub %rdi, %rax; mov %rax, rip_out+168(%rip); ret\n"
        "rip_callee: mov $0x1234, %eax; ret\n"
        ".data\n.balign 16\nrip_aligned: .long 1, 2, 3, 4\nrip_data: .quad 0x1122334455667798, 123456789, 0x11223344, 4, 5\n"
        "rip_double: .double 2.5\nrip_pointer: .quad rip_callee\nrip_out: .skip 512\n.text\n");
void rip_forms(void);
extern uint64_t rip_out[64] __attribute__((visibility("hidden")));

int main(void) {
    rip_forms();
    for (int i = 0; i < 22; i++)
        printf("%3d: %016lx\n", i * 8, rip_out[i]);
    return 0;
}
