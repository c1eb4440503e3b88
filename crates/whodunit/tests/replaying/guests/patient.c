// Takes bytes from outside until the clock has gone on by ARGV[1] milliseconds, then says so.
//@ cc: -O1
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000ll + time.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
    long long end = now() + (argc > 1 ? atoll(argv[1]) : 0);
    puts("begun");
    fflush(stdout);
    while (now() < end) {
        char bytes[16];
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return 1;
    }
    puts("done");
    return 4;
}
