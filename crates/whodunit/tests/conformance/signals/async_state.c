// A signal that arrives at any moment finds the program between two of its instructions, with the registers of that point.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

extern char loop_start[], loop_one[], loop_two[], loop_three[], loop_four[], loop_end[];
__asm__(".text\n"
        // rbx, r12 and r13 are counted up in turn; the loop ends when a handler sets r14.
        "async_loop: push %rbx; push %r12; push %r13; push %r14; xor %ebx, %ebx; xor %r12d, %r12d; xor %r13d, %r13d; xor %r14d, %r14d\n"
        "loop_start: inc %rbx\n"
        "loop_one: inc %r12\n"
        "loop_two: inc %r13\n"
        "loop_three: test %r14, %r14\n"
        "loop_four: jz loop_start\n"
        "loop_end: mov %rbx, %rax; pop %r14; pop %r13; pop %r12; pop %rbx; ret\n");
long async_loop(void);
static volatile int ticks, wrong_place, wrong_registers, wanted;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *pc = (char *)r[REG_RIP];
    if (pc >= loop_start && pc < loop_end) {
        ticks++;
        long first = r[REG_RBX] - r[REG_R12], second = r[REG_R12] - r[REG_R13];
        if (pc == loop_one) wrong_registers += first != 1 || second != 0;
        else if (pc == loop_two) wrong_registers += first != 0 || second != 1;
        else if (pc == loop_start || pc == loop_three || pc == loop_four) wrong_registers += first != 0 || second != 0;
        else wrong_place++;
        if (ticks == wanted) r[REG_R14] = 1; // changes what the program sees next
    }
}

void injected(void);
static volatile int injections;
__asm__(".text\ninjected: pushfq; push %rax; push %rcx; incl injection_count(%rip); pop %rcx; pop %rax; popfq; ret $128\n");
volatile int injection_count __attribute__((used));

// Makes the interrupted code call a function, as language runtimes do to stop a thread.
static void injector(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *pc = (char *)r[REG_RIP];
    if (pc < loop_start || pc >= loop_end) return;
    if (injections == 10) { r[REG_R14] = 1; return; }
    injections++;
    r[REG_RSP] -= 128 + 8; // below the red zone, which `ret $128` skips again
    *(greg_t *)r[REG_RSP] = r[REG_RIP];
    r[REG_RIP] = (greg_t)injected;
}

static void run(void (*function)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = function, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval fast = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, NULL);
    CHECK("loop ended", async_loop() > 0);
    setitimer(ITIMER_REAL, &off, NULL);
}

int main(void) {
    wanted = 50;
    run(handler);
    printf("wrong places %d, wrong registers %d\n", wrong_place, wrong_registers);
    CHECK("enough ticks", ticks >= 50);
    run(injector);
    printf("injected calls %d\n", injection_count);
    return 0;
}
