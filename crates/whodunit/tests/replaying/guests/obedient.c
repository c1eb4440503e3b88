// Does what a byte from standard input says: computes for ever, or makes calls for ever, or comes to an end. On its way there it
// asks the machine for the time if it has an argument.
//@ cc: -O1
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

static volatile uint64_t rounds;

int main(int argc, char **argv) {
    char byte = 0;
    if (read(0, &byte, 1) != 1) return 1;
    while (byte == 'c') rounds++;
    while (byte == 's') syscall(SYS_getppid);
    if (argc > 1) rounds += __rdtsc();
    return write(1, "end\n", 4) == 4 ? 0 : 1;
}
