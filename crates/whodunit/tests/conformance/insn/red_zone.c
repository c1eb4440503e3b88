// Leaf code keeps data below the stack pointer while signals arrive: 128 bytes must survive every one of them.
//@ cc: -O1
#include "check.h"
#include <signal.h>
#include <sys/time.h>

volatile long ticks __asm__("red_zone_ticks");
static void handler(int signal) {
    volatile char use[2000];
    memset((char *)use, 0xee, sizeof use);
    (void)signal;
    ticks++;
}
// Fills the red zone, spins until the tick count moves, and checks every word.
__asm__(".text\nred_zone_leaf:\n"
        " .irp n, 8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n  movq $\\n, -\\n(%rsp)\n .endr\n"
        "  mov red_zone_ticks(%rip), %rcx\n1: cmp red_zone_ticks(%rip), %rcx; je 1b\n"
        "  xor %eax, %eax\n"
        " .irp n, 8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n  cmpq $\\n, -\\n(%rsp); je 2f; inc %eax\n2:\n .endr\n"
        "  ret\n");
int red_zone_leaf(void);

int main(void) {
    signal(SIGALRM, handler);
    struct itimerval fast = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, NULL);
    int broken = 0;
    for (int i = 0; i < 50; i++)
        broken += red_zone_leaf();
    setitimer(ITIMER_REAL, &off, NULL);
    printf("words lost: %d\n", broken);
    CHECK("ticks", ticks >= 50);
    return broken != 0;
}
