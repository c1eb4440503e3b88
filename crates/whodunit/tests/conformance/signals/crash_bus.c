// The program dies of an access beyond the end of a file mapping, which nobody handles: its output so far is kept, and the signal is seen outside.
//@ crashes
#include "check.h"
#include <sys/mman.h>

int main(void) {
    puts("before");
    fprintf(stderr, "on the way\n");
    int file = memfd_create("empty", 0); *(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) = 1;
    puts("FAIL after");
    return 0;
}
