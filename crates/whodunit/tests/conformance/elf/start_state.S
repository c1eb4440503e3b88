// The state at the very first instruction of a program: stack layout, alignment, cleared flags, default FP control.
// Exit status: 0 if all is as the ABI says, else the number of the first rule that is broken.
//@ cc: -nostdlib -static -no-pie
//@ args: first second
        .globl _start
        .text
_start:
        mov     $1, %edi                # 1: the stack pointer is 16-byte aligned
        test    $15, %spl
        jnz     fail
        mov     $2, %edi                # 2: argc
        cmpq    $3, (%rsp)
        jne     fail
        mov     $3, %edi                # 3: argv ends in null
        cmpq    $0, 32(%rsp)
        jne     fail
        mov     $4, %edi                # 4: the second argument
        mov     24(%rsp), %rax
        cmpl    $0x6f636573, (%rax)     # "seco"
        jne     fail
        mov     $5, %edi                # 5: rdx is null or a function; the kernel gives null
        test    %rdx, %rdx
        jnz     fail
        mov     $6, %edi                # 6: direction and trap flags are clear
        pushfq
        pop     %rax
        test    $0x500, %eax
        jnz     fail
        mov     $7, %edi                # 7: default MXCSR
        stmxcsr -8(%rsp)
        cmpl    $0x1f80, -8(%rsp)
        jne     fail
        mov     $8, %edi                # 8: default x87 control word
        fnstcw  -8(%rsp)
        cmpw    $0x037f, -8(%rsp)
        jne     fail
        mov     $9, %edi                # 9: x87 registers are empty
        fnstenv -64(%rsp)
        cmpw    $0xffff, -56(%rsp)
        jne     fail
        mov     $10, %edi               # 10: the environment follows
        mov     40(%rsp), %rax
        test    %rax, %rax
        jz      fail
        mov     $1, %eax                # all is well: say so
        mov     $1, %edi
        lea     text(%rip), %rsi
        mov     $text_end - text, %edx
        syscall
        xor     %edi, %edi
fail:
        mov     $231, %eax              # exit_group
        syscall
        .section .rodata
text:   .ascii  "as the ABI says\n"
text_end:
        .section .note.GNU-stack,"",@progbits
