// The syscall instruction changes rax, rcx and r11 and nothing else; rcx is the next address, r11 the flags.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"
#include <sys/syscall.h>

uint64_t before[16] = {0, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555, 0x6666, 0x7777, 0x8888, 0x9999, 0xaaaa, 0xbbbb, 0xcccc, 0xdddd, 0xeeee, 0xffff}, after[16];
unsigned char vectors_before[16 * 16], vectors_after[16 * 16];
uint64_t number, next_pc, flags_after, flags_wanted = 0x202;
__asm__(".text\n"
        ".macro vecload n\n movdqu vectors_before+16*\\n(%rip), %xmm\\n\n.endm\n"
        ".macro vecstore n\n movdqu %xmm\\n, vectors_after+16*\\n(%rip)\n.endm\n"
        // order: rax rbx rcx rdx rsi rdi rbp r8..r15; rsp is kept by hand
        "one_syscall: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n  vecload \\n\n .endr\n"
        "  mov before+8(%rip), %rbx; mov before+16(%rip), %rcx; mov before+24(%rip), %rdx; mov before+32(%rip), %rsi; mov before+40(%rip), %rdi; mov before+48(%rip), %rbp\n"
        "  mov before+56(%rip), %r8; mov before+64(%rip), %r9; mov before+72(%rip), %r10; mov before+80(%rip), %r11; mov before+88(%rip), %r12; mov before+96(%rip), %r13\n"
        "  mov before+104(%rip), %r14; mov before+112(%rip), %r15; mov number(%rip), %rax; push flags_wanted(%rip); popfq\n"
        "  syscall\n1:"
        "  pushfq; pop flags_after(%rip); push $0x202; popfq\n"
        "  mov %rax, after(%rip); mov %rbx, after+8(%rip); mov %rcx, after+16(%rip); mov %rdx, after+24(%rip); mov %rsi, after+32(%rip); mov %rdi, after+40(%rip); mov %rbp, after+48(%rip)\n"
        "  mov %r8, after+56(%rip); mov %r9, after+64(%rip); mov %r10, after+72(%rip); mov %r11, after+80(%rip); mov %r12, after+88(%rip); mov %r13, after+96(%rip); mov %r14, after+104(%rip); mov %r15, after+112(%rip)\n"
        "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n  vecstore \\n\n .endr\n"
        "  lea 1b(%rip), %rax; mov %rax, next_pc(%rip); pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");
void one_syscall(void);

static void run(const char *name, long nr, uint64_t flags) {
    static const char *const names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    number = nr;
    flags_wanted = flags;
    one_syscall();
    printf("%s, flags %lx\n", name, flags);
    for (int i = 1; i < 15; i++)
        if (i != 2 && i != 10 && after[i] != before[i])
            printf("FAIL %s became %lx\n", names[i], after[i]);
    CHECK("rcx is the next address", after[2] == next_pc);
    CHECK("r11 is the flags", after[10] == flags);
    CHECK("flags stay", flags_after == flags);
    CHECK("vectors stay", memcmp(vectors_before, vectors_after, sizeof vectors_before) == 0);
}

int main(void) {
    for (unsigned i = 0; i < sizeof vectors_before; i++)
        vectors_before[i] = i * 7;
    run("getppid", SYS_getppid, 0x202);
    run("getppid", SYS_getppid, 0xad7);
    run("getppid, direction", SYS_getppid, 0x602);
    run("getppid, alignment check", SYS_getppid, 0x40246);
    run("no such call", 9999, 0x202);
    CHECK("ENOSYS", (int64_t)after[0] == -ENOSYS);
    run("negative number", -1, 0x297);
    CHECK("ENOSYS", (int64_t)after[0] == -ENOSYS);
    run("sched_yield", SYS_sched_yield, 0x246);
    CHECK("zero", after[0] == 0);
    run("close of a bad descriptor", SYS_close, 0x203);
    CHECK("EBADF", (int64_t)after[0] == -EBADF);
    return 0;
}
