// Interval timers while the program computes: real, virtual and profiling time, alarm; vector state survives every tick.
//@ cc: -O2 -mavx2
#include "check.h"
#include <immintrin.h>
#include <signal.h>
#include <sys/time.h>

static volatile int ticks;
static volatile double noise;
static void handler(int signal) {
    (void)signal;
    ticks++;
    // Destroys what it may: the interrupted code must not notice.
    double x = ticks;
    for (int i = 0; i < 10; i++) x = x * 1.0001 + 3;
    noise = x;
    __asm__ volatile("pcmpeqb %%xmm0, %%xmm0\n\tmovdqa %%xmm0, %%xmm1\n\tmovdqa %%xmm0, %%xmm7\n\tmovdqa %%xmm0, %%xmm15\n\tfninit\n\tfldpi\n\tfstp %%st(0)" ::: "xmm0", "xmm1", "xmm7", "xmm15", "memory");
}
static void start(int which, int signal, int microseconds) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(signal, &action, NULL);
    struct itimerval t = {{0, microseconds}, {0, microseconds}};
    ticks = 0;
    setitimer(which, &t, NULL);
}
static void stop(int which) { struct itimerval off = {{0, 0}, {0, 0}}; setitimer(which, &off, NULL); }

static double series(int n) {
    double sum = 0;
    for (int i = 1; i < n; i++) sum += (i & 1 ? 1.0 : -1.0) / ((double)i * i);
    return sum;
}
static long double long_series(int n) {
    long double sum = 0;
    for (int i = 1; i < n; i++) sum += 1.0L / i;
    return sum;
}
__attribute__((target("avx2"))) static unsigned vectors(int n) {
    __m256i a = _mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, 8), b = _mm256_set1_epi32(0x9e3779b9);
    for (int i = 0; i < n; i++) a = _mm256_xor_si256(_mm256_add_epi32(a, b), _mm256_srli_epi32(a, 3));
    unsigned parts[8], sum = 0;
    _mm256_storeu_si256((__m256i *)parts, a);
    for (int i = 0; i < 8; i++) sum = sum * 31 + parts[i];
    return sum;
}

int main(void) {
    __builtin_cpu_init();
    int wide = __builtin_cpu_supports("avx2");
    double quiet = series(20000);
    long double quiet_long = long_series(5000);
    unsigned quiet_vectors = wide ? vectors(20000) : 0;
    static const struct { const char *name; int which, signal, microseconds, wanted; } kinds[] = {
        {"real", ITIMER_REAL, SIGALRM, 1000, 40}, {"virtual", ITIMER_VIRTUAL, SIGVTALRM, 1000, 3}, {"profiling", ITIMER_PROF, SIGPROF, 1000, 3}};
    for (int k = 0; k < 3; k++) {
        int wrong = 0;
        start(kinds[k].which, kinds[k].signal, kinds[k].microseconds);
        while (ticks < kinds[k].wanted) {
            wrong += series(20000) != quiet;
            wrong += long_series(5000) != quiet_long;
            wrong += wide && vectors(20000) != quiet_vectors;
        }
        stop(kinds[k].which);
        printf("%s: wrong results %d\n", kinds[k].name, wrong);
    }
    signal(SIGALRM, handler);
    ticks = 0;
    CHECK("no alarm before", alarm(100) == 0);
    CHECK("time left", alarm(0) == 100);
    ualarm(2000, 0);
    while (!ticks) ;
    printf("alarm %d\n", ticks);
    struct itimerval left;
    CHECK("timer off", getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
    return 0;
}
