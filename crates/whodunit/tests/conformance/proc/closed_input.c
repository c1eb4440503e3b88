// Started with standard input closed: number 0 is free, and the program gets it.
//@ cc: -O1
//@ run: exec "$@" <&-
#include "check.h"
#include <fcntl.h>

int main(void) {
    char byte;
    CHECK("closed", read(0, &byte, 1) == -1 && errno == EBADF);
    CHECK("first free is 0", open("/dev/null", O_RDONLY) == 0);
    CHECK("usable", read(0, &byte, 1) == 0);
    return 0;
}
