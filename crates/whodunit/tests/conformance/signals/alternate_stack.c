// Handlers on an alternate stack: its state, nesting on it, and a real stack overflow survived.
//@ cc: -O1 -pthread -Wno-infinite-recursion
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { SIZE = 65536 };
static char *area;
static volatile int inside, flags_inside, nested_inside;
static sigjmp_buf out;
static int on_area(void *pointer) { return (char *)pointer > area && (char *)pointer < area + SIZE; }
static void nested(int signal) { int here; (void)signal; nested_inside = on_area(&here); }
static void handler(int signal) {
    int here;
    stack_t now;
    (void)signal;
    inside = on_area(&here);
    sigaltstack(NULL, &now);
    flags_inside = now.ss_flags;
    stack_t other = {.ss_sp = area, .ss_size = SIZE};
    CHECK("no change while in use", sigaltstack(&other, NULL) == -1 && errno == EPERM);
    raise(SIGUSR2);
}
static void overflow_handler(int signal, siginfo_t *info, void *context) { int here; (void)context; inside = on_area(&here) && info->si_addr; siglongjmp(out, signal); }
__attribute__((noinline)) static int overflow(int depth) { volatile char pad[1024]; pad[0] = depth; return overflow(depth + 1) + pad[0]; }

static void *overflow_in_thread(void *unused) {
    (void)unused;
    stack_t stack = {.ss_sp = area, .ss_size = SIZE};
    sigaltstack(&stack, NULL);
    for (volatile int i = 0; i < 3; i++) {
        inside = 0;
        int signal = sigsetjmp(out, 1);
        if (!signal) overflow(0);
        printf("thread overflow: signal %d, on the alternate stack %d\n", signal, inside);
    }
    stack.ss_flags = SS_DISABLE;
    CHECK("disable", sigaltstack(&stack, NULL) == 0);
    return NULL;
}

int main(void) {
    stack_t old, stack = {.ss_size = SIZE};
    area = stack.ss_sp = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK("none at first", sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
    CHECK("too small", sigaltstack(&(stack_t){.ss_sp = area, .ss_size = 100}, NULL) == -1 && errno == ENOMEM);
    CHECK("set", sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = nested;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR1);
    printf("inside %d, flags %d, nested inside %d\n", inside, flags_inside, nested_inside);
    action.sa_flags = 0;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    printf("without SA_ONSTACK %d\n", nested_inside);
    CHECK("state", sigaltstack(NULL, &old) == 0 && old.ss_sp == area && old.ss_size == SIZE && old.ss_flags == 0);
    action.sa_sigaction = overflow_handler;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < 3; i++) {
        inside = 0;
        int signal = sigsetjmp(out, 1);
        if (!signal) overflow(0);
        printf("overflow: signal %d, on the alternate stack %d\n", signal, inside);
    }
    pthread_t thread;
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    MUST(pthread_create(&thread, NULL, overflow_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return 0;
}
