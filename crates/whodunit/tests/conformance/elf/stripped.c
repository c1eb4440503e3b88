// An executable without symbols and section headers.
//@ cc: -O2 -s
//@ post: strip --strip-section-headers "$OUT" 2>/dev/null || strip "$OUT"
#include "check.h"
#include <dlfcn.h>

static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

int main(void) {
    printf("%ld\n", fibonacci(20));
    CHECK("no symbol of its own", dlsym(RTLD_DEFAULT, "fibonacci") == NULL);
    CHECK("symbols of libc", dlsym(RTLD_DEFAULT, "printf") != NULL);
    return 0;
}
