// Arithmetic flags live across every kind of control transfer: jmp, indirect jmp, call, ret, loop, jrcxz, and code that
// is not moved through anything but flags. Prints one line of collected bits; exit status says if any was lost.
//@ cc: -nostdlib -static -no-pie
        .globl _start
        .text
// Collects the flags into the next result slot without changing them for later comparison.
.macro collect
        pushfq
        pop     %r8
        and     $0x8d5, %r8d
        mov     %r8, (%r15)
        lea     8(%r15), %r15
        push    %r14                    // set them anew, as they were
        popfq
.endm
_start:
        lea     results(%rip), %r15
        lea     patterns(%rip), %r13
        mov     $32, %ebp
next_pattern:
        mov     (%r13), %r14
        push    %r14
        popfq
        jmp     1f
        ud2
1:      collect
        lea     1f(%rip), %rax
        jmp     *%rax
        ud2
1:      collect
        lea     through_call(%rip), %rax
        call    *%rax
        collect                         // after ret
        call    through_call
        collect
        mov     $3, %ecx
1:      loop    1b                      // loop changes no flags
        collect
        mov     $0, %ecx
        jrcxz   1f
        ud2
1:      collect
        lea     1f(%rip), %rax
        push    %rax
        ret                             // ret as a jump
        ud2
1:      collect
        mov     $0x1234, %ax            // moves, lea, push, pop, xchg, not, bswap, movzx change no flags
        xchg    %rax, %rbx
        not     %rbx
        bswap   %rbx
        movzbl  %bl, %ebx
        lea     5(%rbx,%rbx,2), %rbx
        push    %rbx
        pop     %rbx
        collect
        mov     $0, %cl                 // shifts by zero change no flags
        shl     %cl, %rbx
        rol     %cl, %rbx
        sar     %cl, %ebx
        shld    %cl, %rax, %rbx
        collect
        jmp     *pointer(%rip)
        ud2
landed: collect
        mov     $0, %ecx                // rep with a zero count compares nothing
        mov     %r15, %rsi
        mov     %r15, %rdi
        repe cmpsb
        collect
        mov     $39, %eax               // the system call keeps them: r11 gets a copy
        syscall
        mov     %r11, %r9
        collect
        and     $0x8d5, %r9d
        mov     %r9, (%r15)
        lea     8(%r15), %r15
        lea     8(%r13), %r13
        lea     -1(%rbp), %rbp
        mov     %rbp, %rcx
        jrcxz   compare
        jmp     next_pattern
through_call:
        collect                         // inside the call
        ret

// Every slot of a pattern must equal the pattern.
compare:
        lea     results(%rip), %rsi
        lea     patterns(%rip), %r13
        xor     %ebx, %ebx              // slots seen
        xor     %edi, %edi              // slots lost
1:      cmp     %r15, %rsi
        jae     report
        mov     %rbx, %rax
        xor     %edx, %edx
        mov     $15, %ecx               // slots a pattern
        div     %rcx
        mov     (%r13,%rax,8), %rdx
        and     $0x8d5, %edx
        cmp     (%rsi), %rdx
        je      2f
        inc     %edi
2:      add     $8, %rsi
        inc     %ebx
        jmp     1b
report: mov     %rdi, %r12
        mov     $1, %eax
        mov     $1, %edi
        lea     kept(%rip), %rsi
        mov     $kept_end - kept, %edx
        test    %r12, %r12
        jz      3f
        lea     lost(%rip), %rsi
        mov     $lost_end - lost, %edx
3:      syscall
        lea     (%rbx), %rdi            // exit status: 480 slots seen, modulo 256 is 224
        mov     $231, %eax
        syscall
        .section .rodata
kept:   .ascii  "ok every flag arrives\n"
kept_end:
lost:   .ascii  "FAIL some flag was lost\n"
lost_end:
        .data
        .balign 8
pointer: .quad  landed
patterns:
        .irp    of, 0, 0x800
        .irp    sf, 0, 0x80
        .irp    zf, 0, 0x40
        .irp    cf, 0, 1
        .irp    pf, 0, 4
        .quad   0x202 + \of + \sf + \zf + \cf + \pf + 0x10 * (\cf ^ (\zf >> 6))
        .endr
        .endr
        .endr
        .endr
        .endr
        .bss
        .balign 8
results: .skip  8 * 600
        .section .note.GNU-stack,"",@progbits
