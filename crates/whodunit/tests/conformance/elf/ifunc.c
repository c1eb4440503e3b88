// Indirect functions: the resolver runs before main and picks an implementation.
//@ cc: -O2
#include "check.h"

static int resolved;
static int first(int x) { return x + 1; }
static int second(int x) { return x + 2; }
static int (*resolve_pick(void))(int) {
    __builtin_cpu_init();
    resolved++;
    return __builtin_cpu_supports("sse2") ? second : first;
}
int pick(int) __attribute__((ifunc("resolve_pick")));

__attribute__((target_clones("avx2", "default"))) int sum(const int *values, int n) {
    int total = 0;
    for (int i = 0; i < n; i++)
        total += values[i];
    return total;
}

int main(void) {
    int values[333];
    for (int i = 0; i < 333; i++)
        values[i] = i * i;
    CHECK("resolver ran", resolved >= 1);
    printf("%d\n", pick(10));
    int (*volatile through_pointer)(int) = pick;
    printf("%d\n", through_pointer(20));
    printf("%d\n", sum(values, 333));
    return 0;
}
