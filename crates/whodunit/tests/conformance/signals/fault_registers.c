// At a fault the handler finds every register as the program left it, and can change them.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"
#include <signal.h>
#include <ucontext.h>

extern char fault_here[], fault_next[];
__asm__(".text\n"
        // Fills every register with a known value, faults at a known place, returns what rax holds then.
        "fault_function: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; mov %rsp, saved_rsp(%rip)\n"
        "  mov $0x1001, %eax; mov $0x2002, %ebx; mov $0x3003, %ecx; mov $0x4004, %edx; mov $0x5005, %esi; movabs $0x6006600660066006, %rdi; mov $0x7007, %ebp\n"
        "  mov $0x8008, %r8d; mov $0x9009, %r9d; mov $0xa00a, %r10d; mov $0xb00b, %r11d; mov $0xc00c, %r12d; mov $0xd00d, %r13d; movabs $0x0e0e0e0e0e0e0e0e, %r14; mov $0x18, %r15d\n"
        "  movdqu vector(%rip), %xmm5; push $0xad7; popfq\n"
        "fault_here: mov 8(%r15), %rax\n"
        "fault_next: mov saved_rsp(%rip), %rsp; pushfq; pop flags_after(%rip); cld; movdqu %xmm5, vector_after(%rip); pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
        ".data\n.balign 16\nsaved_rsp: .quad 0\nflags_after: .quad 0\nvector: .quad 0x1122334455667788, 0x99aabbccddeeff00\nvector_after: .quad 0, 0\n.text\n");
long fault_function(void);
extern uint64_t saved_rsp, flags_after, vector_after[2];
static int mode;

static void handler(int signal, siginfo_t *info, void *context) {
    static const struct { const char *name; int index; } names[] = {
        {"rax", REG_RAX}, {"rbx", REG_RBX}, {"rcx", REG_RCX}, {"rdx", REG_RDX}, {"rsi", REG_RSI}, {"rdi", REG_RDI}, {"rbp", REG_RBP}, {"r8", REG_R8},
        {"r9", REG_R9}, {"r10", REG_R10}, {"r11", REG_R11}, {"r12", REG_R12}, {"r13", REG_R13}, {"r14", REG_R14}, {"r15", REG_R15}, {"trap", REG_TRAPNO}, {"error", REG_ERR}, {"address", REG_CR2}};
    ucontext_t *u = context;
    greg_t *registers = u->uc_mcontext.gregs;
    printf("signal %d code %d address %p\n", signal, info->si_code, info->si_addr);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        printf("  %s %llx\n", names[i].name, registers[names[i].index]);
    printf("  flags %llx\n", registers[REG_EFL] & 0xfffull);
    CHECK("pc", registers[REG_RIP] == (greg_t)fault_here);
    CHECK("stack pointer", registers[REG_RSP] == (greg_t)saved_rsp);
    CHECK("vector register", u->uc_mcontext.fpregs->_xmm[5].element[0] == 0x55667788 && u->uc_mcontext.fpregs->_xmm[5].element[3] == 0x99aabbcc);
    CHECK("control words", u->uc_mcontext.fpregs->mxcsr == 0x1f80 && u->uc_mcontext.fpregs->cwd == 0x37f);
    switch (mode) {
    case 0: registers[REG_RIP] = (greg_t)fault_next; registers[REG_RAX] = 77; registers[REG_EFL] &= ~0x8d5ll; break;
    case 1: registers[REG_R15] = (greg_t)vector_after; break; // try again with a good pointer
    case 2: u->uc_mcontext.fpregs->_xmm[5].element[0] = 0xabcdef01; registers[REG_RIP] = (greg_t)fault_next; break;
    }
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    for (mode = 0; mode < 3; mode++) {
        vector_after[1] = 4242;
        long result = fault_function();
        printf("mode %d: result %ld, flags %lx, vector %lx\n", mode, mode == 1 ? result : mode == 0 ? result : 0, flags_after & 0x8d5, vector_after[0]);
    }
    return 0;
}
