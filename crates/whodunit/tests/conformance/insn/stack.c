// push, pop, enter, leave, pushf, popf and all that moves the stack pointer, in every form.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"

uint64_t stack_results[64];
__asm__(".text\n"
        ".macro keep; pop %rax; mov %rax, (%rdi); add $8, %rdi; .endm\n"
        "stack_forms: push %rbx; push %rbp; push %r12; push %r13; mov %rsp, %r12; lea stack_results(%rip), %rdi\n"
        "  push $0x12; keep; push $-5; keep; push $0x12345678; keep; pushq $-0x12345678; keep\n"
        "  mov $0x1122334455667788, %rbx; push %rbx; keep; push %r12; pop %rax; sub %rsp, %rax; mov %rax, (%rdi); add $8, %rdi\n"
        "  push stack_source(%rip); keep; mov $1, %ecx; lea stack_source(%rip), %rdx; push (%rdx,%rcx,8); keep\n"
        // 16-bit pushes move the stack pointer by two
        "  pushw $0x7a7a; pushw %bx; pushw stack_source(%rip); pushw $0x1; keep\n"
        "  push %rbx; popw %ax; popw %cx; add $4, %rsp; movzwl %ax, %eax; mov %rax, (%rdi); movzwl %cx, %ecx; mov %rcx, 8(%rdi); add $16, %rdi\n"
        // push rsp stores the old value; pop rsp loads; push and pop relative to rsp
        "  mov %rsp, %rbx; push %rsp; pop %rax; sub %rbx, %rax; mov %rax, (%rdi); add $8, %rdi\n"
        "  mov %rsp, %rbx; push %rsp; pop %rsp; mov %rsp, %rax; sub %rbx, %rax; mov %rax, (%rdi); add $8, %rdi\n"
        "  push $1; push $2; push $3; push 8(%rsp); keep; pop 8(%rsp); pop %rax; keep\n"
        "  push $77; lea stack_target(%rip), %rdx; pop (%rdx); push $88; mov $1, %ecx; pop (%rdx,%rcx,8)\n"
        "  push $99; push $44; pop (%rsp); keep\n"                                   // the address is taken after the pop
        "  push %rbx; mov %rsp, %rbx; xchg %rbx, %rsp; pop %rbx; cmp %rsp, %r12; sete %al; movzx %al, %eax; mov %rax, (%rdi); add $8, %rdi\n"
        // enter and leave
        "  mov %rsp, %rbp; enter $32, $0; mov %rbp, %rax; sub %rsp, %rax; mov %rax, (%rdi); add $8, %rdi; leave\n"
        "  mov %rsp, %rax; sub %rbp, %rax; mov %rax, (%rdi); add $8, %rdi\n"
        "  push $0; mov %rsp, %rbp; enter $16, $1; mov %rbp, %rax; sub %rsp, %rax; mov %rax, (%rdi); add $8, %rdi; mov -8(%rbp), %rax; sub %rbp, %rax; mov %rax, (%rdi); add $8, %rdi; leave; pop %rax\n"
        // flags through the stack
        "  push $0xad5; popfq; pushfq; keep; push $0x202; popfq; pushfq; keep\n"
        "  push $0x602; popfq; pushfq; keep; cld; stc; pushfq; keep; cmc; pushfq; keep\n"
        "  push $0x200202; popfq; pushfq; keep; push $0x202; popfq; pushfw; movzwl (%rsp), %eax; add $2, %rsp; mov %rax, (%rdi); add $8, %rdi\n"
        "  mov $0xd7, %ah; sahf; lahf; movzx %ah, %eax; mov %rax, (%rdi); add $8, %rdi; mov $0, %ah; sahf; lahf; movzx %ah, %eax; mov %rax, (%rdi); add $8, %rdi\n"
        "  mov %r12, %rax; sub %rsp, %rax; mov %rax, (%rdi); add $8, %rdi\n"         // all balanced
        "  mov %rdi, %rax; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
        ".data\n.balign 8\nstack_source: .quad 0x5566778899aabbcc, 0x0102030405060708\nstack_target: .quad 0, 0\n.text\n");
uint64_t *stack_forms(void);
extern uint64_t stack_target[2];

int main(void) {
    uint64_t *end = stack_forms();
    for (uint64_t *value = stack_results; value < end; value++)
        printf("%2d: %lx\n", (int)(value - stack_results), *value);
    printf("popped to memory %lu %lu\n", stack_target[0], stack_target[1]);
    return 0;
}
