// Fails in the way that the first argument names and writes the evidence into the folder that the second one names.
// The functions carry the names that the tests expect.
#include "evidence.h"
#include <pthread.h>
#include <sys/syscall.h>

#define APART __attribute__((noinline, noclone))
// Keeps a call from becoming a jump, so that its caller stays on the stack.
#define STAY() __asm__ volatile("" ::: "memory")

volatile int sink;
int *volatile nowhere;

APART void gamma_writes(int value) {
    *nowhere = value; // MARK write
    STAY();
}
APART void beta(int value) {
    gamma_writes(value + 1); // MARK beta
    STAY();
}
APART void alpha(int value) {
    beta(value + 1);
    STAY();
}

APART int compare(const void *left, const void *right) {
    alpha(*(const int *)left);
    return *(const int *)left - *(const int *)right;
}
APART void sorts(void) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    sink = numbers[0];
}

void (*volatile wild)(void);
APART void calls_wild(void) {
    wild(); // MARK wild call
    STAY();
}

APART void on_user(int signal) {
    alpha(signal);
    STAY();
}
APART void raises(void) {
    raise(SIGUSR1);
    STAY();
}

// Divides by zero in the middle of the function, and the handler fails again.
volatile int zero;
APART void divides(void) {
    sink = 100 / zero; // MARK divide
    STAY();
}

// Returns from a signal handler, and no unwinding rules say so.
__asm__(".text\nbare_return: mov $15, %rax\nsyscall\n");
void bare_return(void);
APART void divides_with_bare_return(void) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {on_user, 0x04000000, bare_return, 0};
    if (syscall(SYS_rt_sigaction, SIGFPE, &action, NULL, 8)) _exit(95);
    divides();
    STAY();
}

APART int recurses(int depth) {
    volatile char pad[64];
    pad[depth % 64] = (char)depth;
    return recurses(depth + 1) + pad[depth % 64];
}

APART void smashes(void) {
    volatile unsigned long local[2];
    volatile unsigned long *at = local;
    for (int i = 0; i < 12; i++) at[i] = 0x4141414141414141;
    STAY();
}

APART void *on_thread(void *argument) {
    alpha(1);
    return argument;
}

// Needs more alignment than the stack has, which makes the compiler keep the old stack pointer elsewhere.
APART void realigned(int value) {
    _Alignas(64) volatile char block[64];
    char *volatile variable = __builtin_alloca(value + 16);
    variable[0] = 1;
    block[0] = (char)value;
    alpha(value + block[0]);
    STAY();
}

static inline __attribute__((always_inline)) void inlined_inner(int value) {
    // Not left to the compiler, which merges statements of inlined functions.
    __asm__ volatile("movl %1, (%0)" ::"r"(nowhere), "r"(value) : "memory"); // MARK inlined write
}
static inline __attribute__((always_inline)) void inlined_outer(int value) {
    inlined_inner(value * 2); // MARK inlined call
}
APART void has_inlined(int value) {
    inlined_outer(value + 1); // MARK outer call
    STAY();
}

int table[10] = {1};
char zeroed[1000];

int main(int argc, char **argv) {
    if (argc < 3) return 93;
    const char *way = argv[1];
    leave_evidence_in(argv[2]);
    signal(SIGUSR1, on_user);
    signal(SIGFPE, on_user);
    if (!strcmp(way, "plain")) alpha(argc);
    if (!strcmp(way, "sort")) sorts();
    if (!strcmp(way, "null-call")) calls_wild();
    if (!strcmp(way, "signal")) raises();
    if (!strcmp(way, "divide")) divides();
    if (!strcmp(way, "bare-signal")) divides_with_bare_return();
    if (!strcmp(way, "overflow")) sink = recurses(argc);
    if (!strcmp(way, "smash")) smashes();
    if (!strcmp(way, "realign")) realigned(argc);
    if (!strcmp(way, "inline")) has_inlined(argc);
    if (!strcmp(way, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, on_thread, NULL);
        pthread_join(thread, NULL);
    }
    STAY();
    return 94;
}
