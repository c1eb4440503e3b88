// Signals sent to a thread that has not run yet: it inherits the mask that blocks them, the C library's own (32, 33) too, and takes them when it waits.
//@ cc: -O1 -fno-stack-protector
#include "check.h"
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 65536, FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID };
static const int sent[] = {32, 33, SIGUSR1, 64};
static volatile int taken[4];
static volatile uint32_t tid;

// Shares the thread data of the first thread, so it uses nothing of the C library but `syscall`.
static int taker(void *nothing) {
    (void)nothing;
    uint64_t all = ~(uint64_t)0;
    for (int i = 0; i < 4; i++)
        taken[i] = syscall(SYS_rt_sigtimedwait, &all, NULL, NULL, sizeof all);
    return 0;
}

int main(void) {
    uint64_t all = ~(uint64_t)0, before;
    MUST(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all) == 0);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack != MAP_FAILED);
    MUST(clone(taker, stack + STACK - 64, FLAGS, NULL, &tid, NULL, &tid) > 0);
    long thread = tid;
    for (int i = 0; i < 4; i++)
        CHECK("sent", syscall(SYS_tgkill, getpid(), thread, sent[i]) == 0);
    while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &tid, FUTEX_WAIT, thread, NULL, NULL, 0);
    int found = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) found += taken[k] == sent[i];
    CHECK("all taken", found == 4);
    MUST(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before) == 0);
    return 0;
}
