// The address of the last x87 instruction, as fnstenv, fnsave, fxsave and a signal frame show it.
//@ cc: -O1
#include "check.h"
#include <signal.h>
#include <ucontext.h>

static double three = 3.0, zero = 0.0;
static uint16_t divisions_trap = 0x37b;
static uint64_t at;

// Without a pending exception some processors forget the pointer when the kernel switches tasks: zero is right too.
static int right_or_forgotten(uint32_t pointer) { return pointer == (uint32_t)at || pointer == 0; }

static int environment(void) {
    uint32_t words[7];
    __asm__ volatile("fninit\n\tlea 1f(%%rip), %0\n1:\tfldl %2\n\tfnstenv %1\n\tfninit" : "=r"(at), "=m"(words) : "m"(three));
    return right_or_forgotten(words[3]);
}
static int everything(void) {
    uint32_t words[27];
    __asm__ volatile("fninit\n\tlea 1f(%%rip), %0\n1:\tfldl %2\n\tfnsave %1" : "=r"(at), "=m"(words) : "m"(three));
    return right_or_forgotten(words[3]);
}
// With an exception pending every processor stores it.
static int wide(void) {
    static unsigned char area[512] __attribute__((aligned(16)));
    __asm__ volatile("fninit\n\tfldcw %4\n\tfldl %2\n\tlea 1f(%%rip), %0\n1:\tfdivl %3\n\trex.W fxsave %1\n\tfnclex\n\tfninit"
                     : "=r"(at), "=m"(area) : "m"(three), "m"(zero), "m"(divisions_trap));
    return *(uint64_t *)(area + 8) == at;
}
static volatile uint64_t in_frame;
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)info;
    ucontext_t *found = context;
    in_frame = found->uc_mcontext.fpregs->rip;
    found->uc_mcontext.fpregs->swd &= ~0x80ff;
    found->uc_mcontext.fpregs->cwd = 0x37f;
}
static int framed(void) {
    __asm__ volatile("fninit\n\tfldcw %3\n\tfldl %1\n\tlea 1f(%%rip), %0\n1:\tfdivl %2\n\tfwait\n\tfninit"
                     : "=r"(at) : "m"(three), "m"(zero), "m"(divisions_trap) : "memory");
    return in_frame == at;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGFPE, &action, NULL);
    CHECK("fnstenv", environment());
    CHECK("fnsave", everything());
    CHECK("fxsave", wide());
    CHECK("signal frame", framed());
    return 0;
}
