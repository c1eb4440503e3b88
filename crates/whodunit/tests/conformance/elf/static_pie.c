// A static position-independent executable, which relocates itself.
//@ cc: -static-pie -fPIE
#include "check.h"
#include <sys/auxv.h>

static const char *const names[] = {"alpha", "beta", "gamma"};
static int (*const put)(const char *) = puts;

int main(void) {
    for (int i = 0; i < 3; i++)
        put(names[i]);
    CHECK("no interpreter", getauxval(AT_BASE) == 0);
    CHECK("relocated", (uintptr_t)main > 0x10000000);
    CHECK("AT_PHDR is ours", getauxval(AT_PHDR) > (uintptr_t)main - 0x1000000 && getauxval(AT_PHDR) < (uintptr_t)main);
    return 1;
}
