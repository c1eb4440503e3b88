// The futex system call itself: every operation, every simple error, time limits on both clocks.
//@ cc: -O1 -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static uint32_t word, second;
static int awake;
static long futex(uint32_t *at, int operation, uint32_t value, const void *timeout, uint32_t *at2, uint32_t value3) {
    long r = syscall(SYS_futex, at, operation, value, timeout, at2, value3);
    return r < 0 ? -errno : r;
}
static struct timespec after(clockid_t clock, long milliseconds) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += milliseconds * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000; // Without a branch: counts must not depend on the time of day.
    t.tv_nsec %= 1000000000;
    return t;
}
static void *waiter(void *mask) {
    long r;
    do
        r = mask ? futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(uintptr_t)mask) : futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    while (r == -EINTR);
    __atomic_fetch_add(&awake, 1, __ATOMIC_SEQ_CST);
    return (void *)r;
}
static pthread_t start(uintptr_t mask) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, waiter, (void *)mask) == 0);
    return thread;
}
// Repeats an operation until `wanted` waiters have been reached by it: they may not have gone to sleep yet.
static long until(long wanted, int operation, uint32_t value, const void *timeout, uint32_t *at2, uint32_t value3) {
    long total = 0;
    while (total < wanted) {
        long r = futex(&word, operation, value, timeout, at2, value3);
        if (r < 0)
            return r;
        total += r;
        sched_yield();
    }
    return total;
}

// Whether requeued waiters are found on the second word and no more on the first. The kernel may restart a wait behind
// the program's back, which brings a waiter back to the first word: such an attempt does not count.
static int requeue_works(int operation, int n) {
    for (int attempt = 0; attempt < 10; attempt++) {
        pthread_t threads[3];
        for (int i = 0; i < n; i++) threads[i] = start(0);
        long moved = until(n, operation, 0, (void *)10l, &second, 0);
        long on_first = futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0), on_second = futex(&second, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
        for (long found = on_first + on_second; found < n; sched_yield())
            found += futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0) + futex(&second, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
        for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
        if (moved == n && on_first == 0 && on_second == n) return 1;
    }
    return 0;
}

int main(void) {
    pthread_t threads[3];
    CHECK("value differs", futex(&word, FUTEX_WAIT_PRIVATE, 5, NULL, NULL, 0) == -EAGAIN);
    CHECK("nobody to wake", futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0) == 0);
    CHECK("misaligned", futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -EINVAL);
    CHECK("unmapped", futex((uint32_t *)8, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -EFAULT);
    CHECK("no such operation", futex(&word, 99, 0, NULL, NULL, 0) == -ENOSYS);
    CHECK("empty bitset", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0) == -EINVAL);
    struct timespec t = {0, 10000000}, bad = {0, 2000000000};
    CHECK("relative time", futex(&word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0) == -ETIMEDOUT);
    CHECK("bad time", futex(&word, FUTEX_WAIT_PRIVATE, 0, &bad, NULL, 0) == -EINVAL);
    t = after(CLOCK_MONOTONIC, 10);
    CHECK("absolute monotonic", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, ~0u) == -ETIMEDOUT);
    t = after(CLOCK_REALTIME, 10);
    CHECK("absolute realtime", futex(&word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &t, NULL, ~0u) == -ETIMEDOUT);
    t = (struct timespec){1, 0};
    CHECK("long past", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, ~0u) == -ETIMEDOUT);

    for (int i = 0; i < 3; i++) threads[i] = start(0);
    CHECK("wake three one by one", until(3, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 3);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("awake %d\n", awake);

    threads[0] = start(1); threads[1] = start(2);
    CHECK("bit 1 wakes its waiter", until(1, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, 2) == 1);
    pthread_join(threads[1], NULL);
    CHECK("bit 2 wakes nobody", futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, 4) == 0);
    CHECK("bit 0 wakes the other", until(1, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, 1) == 1);
    pthread_join(threads[0], NULL);

    CHECK("requeue three", requeue_works(FUTEX_REQUEUE_PRIVATE, 3));
    CHECK("compare and requeue differs", futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10l, &second, 7) == -EAGAIN);
    CHECK("compare and requeue", requeue_works(FUTEX_CMP_REQUEUE_PRIVATE, 2));

    awake = 0;
    second = 5;
    threads[0] = start(0);
    CHECK("wake and operate", until(1, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1l, &second, FUTEX_OP(FUTEX_OP_SET, 9, FUTEX_OP_CMP_EQ, 100)) == 1);
    pthread_join(threads[0], NULL);
    printf("second word %u\n", second);
    CHECK("wake and add", futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1l, &second, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 0)) == 0);
    printf("second word %u\n", second);
    CHECK("wake and clear bits", futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1l, &second, FUTEX_OP((FUTEX_OP_ANDN | FUTEX_OP_OPARG_SHIFT), 2, FUTEX_OP_CMP_GT, 0)) == 0);
    printf("second word %u, awake %d\n", second, awake);

    uint32_t pi = 0;
    CHECK("lock with inheritance", futex(&pi, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0 && (pi & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid));
    CHECK("lock twice", futex(&pi, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0) == -EDEADLK);
    CHECK("unlock", futex(&pi, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0 && pi == 0);
    CHECK("unlock of a free one", futex(&pi, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) == -EPERM);
    return 0;
}
