// sigaction flags and masks: NODEFER, RESETHAND, sa_mask, nested delivery, pending sets, ignoring, what sigaction returns.
//@ cc: -O1
#include "check.h"
#include <signal.h>
#include <ucontext.h>

static char log_text[256];
static int raised;
static void note(const char *text) { strcat(log_text, text); }
static void show(const char *name) { printf("%s: %s\n", name, log_text); log_text[0] = 0; }
static void nest(int signal) {
    note("(");
    if (++raised < 3) raise(signal);
    note(")");
}
static void usr1(int signal) { (void)signal; note("<1"); raise(SIGUSR2); note("1>"); }
static void usr2(int signal) { (void)signal; note("[2]"); }
static void edits_mask(int signal, siginfo_t *info, void *context) { (void)signal; (void)info; sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR2); }
static void set(int signal, void (*handler)(int), int flags, int masked) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (masked) sigaddset(&action.sa_mask, masked);
    MUST(sigaction(signal, &action, NULL) == 0);
}
static int blocked(int signal) { sigset_t now; sigprocmask(SIG_BLOCK, NULL, &now); return sigismember(&now, signal); }
static int pending(int signal) { sigset_t now; sigpending(&now); return sigismember(&now, signal); }

int main(void) {
    sigset_t one, old;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    set(SIGUSR1, nest, 0, 0); raise(SIGUSR1); show("deferred");
    set(SIGUSR1, nest, SA_NODEFER, 0); raised = 0; raise(SIGUSR1); show("not deferred");
    set(SIGUSR2, usr2, 0, 0);
    set(SIGUSR1, usr1, 0, 0); raise(SIGUSR1); show("nested");
    set(SIGUSR1, usr1, 0, SIGUSR2); raise(SIGUSR1); show("masked");
    set(SIGUSR1, usr2, SA_RESETHAND, 0); raise(SIGUSR1);
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    CHECK("reset to default", action.sa_handler == SIG_DFL); show("reset");
    sigprocmask(SIG_BLOCK, &one, &old);
    CHECK("was open", !sigismember(&old, SIGUSR2));
    for (int i = 0; i < 3; i++) raise(SIGUSR2);
    CHECK("pending", pending(SIGUSR2) && !pending(SIGUSR1)); show("blocked");
    sigprocmask(SIG_UNBLOCK, &one, NULL); show("unblocked, once only");
    sigprocmask(SIG_BLOCK, &one, NULL);
    raise(SIGUSR2);
    set(SIGUSR2, SIG_IGN, 0, 0);
    CHECK("ignoring drops it", !pending(SIGUSR2));
    set(SIGUSR2, usr2, 0, 0);
    sigprocmask(SIG_UNBLOCK, &one, NULL); show("nothing left");
    action = (struct sigaction){.sa_sigaction = edits_mask, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL); raise(SIGUSR1);
    CHECK("the mask in the context takes effect", blocked(SIGUSR2));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    CHECK("KILL and STOP cannot be blocked", !blocked(SIGKILL) && !blocked(SIGSTOP) && blocked(SIGSEGV) && blocked(SIGTRAP) && blocked(SIGTERM));
    sigprocmask(SIG_SETMASK, &old, NULL);
    action.sa_handler = usr2; action.sa_flags = SA_RESTART | SA_NODEFER; sigemptyset(&action.sa_mask); sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction back;
    sigaction(SIGTERM, NULL, &back);
    CHECK("read back", back.sa_handler == usr2 && (back.sa_flags & (SA_RESTART | SA_NODEFER | SA_RESETHAND)) == (SA_RESTART | SA_NODEFER) && sigismember(&back.sa_mask, SIGHUP) && !sigismember(&back.sa_mask, SIGINT));
    CHECK("no handler for KILL", sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK("no signal 0", sigaction(0, &action, NULL) == -1 && errno == EINVAL);
    CHECK("no signal 65", sigaction(65, &action, NULL) == -1 && errno == EINVAL);
    CHECK("kill with 0 tests", kill(getpid(), 0) == 0);
    CHECK("bad signal", kill(getpid(), 99) == -1 && errno == EINVAL);
    int reset = 0;
    for (int signal = 1; signal < 32; signal++) { sigaction(signal, NULL, &back); reset += back.sa_handler == SIG_DFL; }
    printf("default %d\n", reset);
    return 0;
}
