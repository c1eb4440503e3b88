// Threads made by the clone system call without the C library: shared memory, own TLS, the child-cleared word, exit of one thread.
//@ cc: -O1 -fno-stack-protector
//@ threaded
#include "check.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { THREADS = 4, STACK = 65536, FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID };
struct control { uint64_t self, id; volatile uint64_t from_fs, tid; };
static struct control controls[THREADS] __attribute__((aligned(64)));
static volatile uint32_t parent_word[THREADS], child_word[THREADS];
static uint32_t counter;

// Runs on the new stack with its own FS base; may use no libc function, for those need libc's own thread data.
static void body(struct control *control) {
    uint64_t id;
    __asm__ volatile("mov %%fs:8, %0" : "=r"(id));
    control->from_fs = id;
    long tid;
    __asm__ volatile("syscall" : "=a"(tid) : "0"(SYS_gettid) : "rcx", "r11", "memory");
    control->tid = tid;
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
}

static long start(int i, char *stack_top) {
    register long flags __asm__("rdi") = FLAGS;
    register void *stack __asm__("rsi") = stack_top;
    register volatile uint32_t *parent __asm__("rdx") = &parent_word[i];
    register volatile uint32_t *child __asm__("r10") = &child_word[i];
    register void *tls __asm__("r8") = &controls[i];
    register void (*function)(struct control *) __asm__("r12") = body;
    long result;
    __asm__ volatile("syscall\n\ttest %0, %0\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tmov %%r8, %%rdi\n\tcall *%%r12\n\tmov %8, %%eax\n\txor %%edi, %%edi\n\tsyscall\n\tud2\n1:"
                     : "=a"(result) : "0"((long)SYS_clone), "r"(flags), "r"(stack), "r"(parent), "r"(child), "r"(tls), "r"(function), "i"(SYS_exit) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    char *stacks = mmap(NULL, THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stacks != MAP_FAILED);
    long tids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        controls[i].self = (uintptr_t)&controls[i];
        controls[i].id = 100 + i;
        child_word[i] = 1;
        tids[i] = start(i, stacks + (i + 1) * STACK - 64);
        MUST(tids[i] > 0);
    }
    for (int i = 0; i < THREADS; i++) {
        while (__atomic_load_n(&child_word[i], __ATOMIC_ACQUIRE))
            syscall(SYS_futex, &child_word[i], FUTEX_WAIT, 1, NULL, NULL, 0);
        CHECK("own thread area", controls[i].from_fs == 100u + i);
        CHECK("thread id", (long)controls[i].tid == tids[i] && (long)parent_word[i] == tids[i]);
        CHECK("not the process id", tids[i] != getpid());
    }
    printf("counter %u\n", counter);
    return 0;
}
