// 300 MB of zero data, of which few pages are touched.
#include "check.h"

#define SIZE (300u << 20)
static unsigned char bss[SIZE];

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < SIZE; i += 4 << 20)
        sum += bss[i];
    CHECK("all zero", sum == 0);
    for (unsigned i = 0; i < SIZE; i += 4 << 20)
        bss[i] = i >> 22;
    for (unsigned i = 0; i < SIZE; i += 4 << 20)
        sum += bss[i];
    printf("%u\n", sum);
    bss[SIZE - 1] = 9;
    CHECK("last byte", bss[SIZE - 1] == 9);
    return 0;
}
