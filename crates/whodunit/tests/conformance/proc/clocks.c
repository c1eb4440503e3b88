// Clocks agree with each other and go forward; resolution, time of day, processor time, sleeping in between.
//@ cc: -O1
#include "check.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

static long long now(clockid_t clock) { struct timespec t; MUST(clock_gettime(clock, &t) == 0); return t.tv_sec * 1000000000ll + t.tv_nsec; }
int main(void) {
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        int backwards = 0;
        long long last = now(clocks[i]);
        for (int n = 0; n < 1000; n++) { long long t = now(clocks[i]); backwards += t < last; last = t; }
        printf("clock %d backwards %d\n", clocks[i], backwards);
    }
    struct timeval day;
    gettimeofday(&day, NULL);
    long long real = now(CLOCK_REALTIME);
    CHECK("time of day agrees", real / 1000 >= day.tv_sec * 1000000ll + day.tv_usec && real / 1000000000 - day.tv_sec < 10);
    CHECK("time agrees", labs(time(NULL) - (long)(real / 1000000000)) < 10);
    struct timespec raw;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &raw);
    CHECK("the system call agrees", now(CLOCK_MONOTONIC) >= raw.tv_sec * 1000000000ll + raw.tv_nsec);
    long long before = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    usleep(20000);
    CHECK("sleep takes time", now(CLOCK_MONOTONIC) - before >= 20000000);
    CHECK("but no processor time", now(CLOCK_PROCESS_CPUTIME_ID) - cpu < 20000000);
    volatile double x = 1;
    while (now(CLOCK_PROCESS_CPUTIME_ID) - cpu < 5000000) x = x * 1.1;
    CHECK("work takes processor time", clock() > 0);
    struct timespec resolution;
    CHECK("resolution", clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_nsec == 1);
    CHECK("no such clock", clock_gettime(77, &resolution) == -1 && errno == EINVAL);
    struct rusage usage;
    CHECK("usage", getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0);
    struct tms ticks;
    CHECK("times", times(&ticks) != (clock_t)-1);
    time_t fixed = 86400 * 365;
    printf("%s", asctime(gmtime(&fixed)));
    unsigned char random[32] = {0}, zero[32] = {0};
    CHECK("random", syscall(SYS_getrandom, random, 32, 0) == 32 && memcmp(random, zero, 32));
    return 0;
}
