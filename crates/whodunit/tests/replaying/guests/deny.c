// Runs its arguments under a filter like a container's: ptrace, perf_event_open and what a container may not do either
// are refused. Prints nothing.
//@ cc: -O1
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(ptrace), REFUSE(perf_event_open), REFUSE(process_vm_readv), REFUSE(process_vm_writev), REFUSE(personality),
        REFUSE(userfaultfd), REFUSE(bpf), REFUSE(kcmp), REFUSE(mount), REFUSE(unshare), REFUSE(setns), REFUSE(add_key),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 125;
    if (syscall(SYS_perf_event_open, 0, 0, 0, 0, 0) != -1 || errno != EPERM) return 125;
    execv(argv[1], argv + 1);
    return 127;
}
