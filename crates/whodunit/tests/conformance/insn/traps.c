// Instructions that trap: divide errors, ud2, int3, int1, privileged ones; the handler sees the right signal and place.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"
#include <signal.h>
#include <ucontext.h>

static volatile int signal_seen, code_seen;
static volatile uintptr_t address_seen, pc_seen, expected, resume;

uint64_t zero_divisor;

static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    signal_seen = signal;
    code_seen = info->si_code;
    address_seen = (uintptr_t)info->si_addr;
    pc_seen = registers[REG_RIP];
    registers[REG_RIP] = resume;
}

static void report(const char *name) {
    const char *where = pc_seen == expected ? "at it" : pc_seen == resume ? "behind it" : "elsewhere";
    const char *address = address_seen == expected ? "it" : address_seen == resume ? "behind it" : address_seen == 0 ? "null" : "other";
    printf("%s: signal %d code %d, pc %s, address %s\n", name, signal_seen, code_seen, where, address);
    signal_seen = 0;
}

#define TRAP(name, setup, instruction)                                                                   \
    __asm__ volatile("movq $1f, %0\n\tmovq $2f, %1\n\t" setup "\n1:\t" instruction "\n2:"                  \
                     : "=m"(expected), "=m"(resume) : : "rax", "rcx", "rdx", "rbx", "cc", "memory");        \
    report(name)

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    static const int signals[] = {SIGFPE, SIGILL, SIGTRAP, SIGSEGV, SIGBUS};
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &action, NULL);
    TRAP("div by zero", "xor %%ecx, %%ecx; mov $5, %%eax; xor %%edx, %%edx", "div %%ecx");
    TRAP("div overflow", "mov $1, %%ecx; mov $5, %%edx", "div %%ecx");
    TRAP("idiv overflow 32", "mov $-1, %%ecx; mov $0x80000000, %%eax; cltd", "idiv %%ecx");
    TRAP("idiv overflow 64", "mov $-1, %%rcx; movabs $0x8000000000000000, %%rax; cqto", "idiv %%rcx");
    TRAP("div byte overflow", "mov $1, %%cl; mov $0x100, %%ax", "div %%cl");
    TRAP("div memory", "xor %%edx, %%edx; mov $1, %%eax", "divq zero_divisor(%%rip)");
    TRAP("ud2", "", "ud2");
    TRAP("ud1", "", ".byte 0x0f, 0xb9, 0xc0");
    TRAP("invalid in 64-bit", "", ".byte 0x06");
    TRAP("int3", "", "int3");
    TRAP("int 3, long form", "", ".byte 0xcd, 0x03");
    TRAP("int1", "", ".byte 0xf1");
    TRAP("hlt", "", "hlt");
    TRAP("cli", "", "cli");
    TRAP("in", "", "in %%dx, %%al");
    TRAP("mov cr0", "", "mov %%cr0, %%rax");
    TRAP("rdmsr", "", "rdmsr");
    TRAP("int 0x99", "", "int $0x99");
    TRAP("lock on a register", "", ".byte 0xf0, 0x01, 0xc0");
    TRAP("non-canonical", "movabs $0x8000000000000000, %%rax", "mov (%%rax), %%rcx");
    TRAP("null", "xor %%eax, %%eax", "mov (%%rax), %%rcx");
    TRAP("misaligned movaps", "lea -24(%%rsp), %%rax; or $8, %%rax", "movaps 1(%%rax), %%xmm0");
    return 0;
}
