// Started with standard output and error closed: writes fail, nothing else is hit; the result is the exit status.
//@ cc: -O1
//@ run: exec "$@" >&- 2>&-
#include "check.h"
#include <fcntl.h>

int main(void) {
    if (write(1, "x", 1) != -1 || errno != EBADF) return 2;
    if (write(2, "x", 1) != -1 || errno != EBADF) return 3;
    if (printf("lost\n") >= 0 && fflush(stdout) == 0) return 4;
    if (open("file", O_CREAT | O_RDWR, 0600) != 1) return 5;
    if (open("/dev/null", O_WRONLY) != 2) return 6;
    if (write(1, "kept", 4) != 4) return 7;
    char text[8] = "";
    if (pread(1, text, 7, 0) != 4 || strcmp(text, "kept")) return 8;
    return 61;
}
