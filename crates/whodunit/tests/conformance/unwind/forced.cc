// Forced unwinding: pthread_exit and pthread_cancel run destructors, cleanup handlers and catch (...) on their way out.
//@ cc: -O1 -pthread
#include "check.h"
#include <cxxabi.h>
#include <pthread.h>

struct Tracer {
    const char *name;
    ~Tracer() { printf("leave %s\n", name); }
};

static void cleanup(void *name) { printf("cleanup %s\n", static_cast<const char *>(name)); }

__attribute__((noinline)) static void inner(int kind) {
    Tracer tracer{"inner"};
    pthread_cleanup_push(cleanup, const_cast<char *>("inner"));
    if (kind == 0)
        pthread_exit(reinterpret_cast<void *>(5));
    pthread_cancel(pthread_self());
    pthread_testcancel();
    puts("FAIL not cancelled");
    pthread_cleanup_pop(0);
}

static void *body(void *kind) {
    Tracer tracer{"outer"};
    try {
        inner(static_cast<int>(reinterpret_cast<intptr_t>(kind)));
    } catch (abi::__forced_unwind &) {
        puts("forced unwind passes");
        throw;
    }
    return nullptr;
}

static void *waits_in_read(void *end) {
    Tracer tracer{"reader"};
    char byte;
    ssize_t got = read(*static_cast<int *>(end), &byte, 1); // a cancellation point
    printf("FAIL read returned %zd\n", got);
    return nullptr;
}

int main() {
    pthread_t thread;
    void *result;
    for (intptr_t kind = 0; kind < 2; kind++) {
        MUST(pthread_create(&thread, nullptr, body, reinterpret_cast<void *>(kind)) == 0);
        pthread_join(thread, &result);
        printf("result %s\n", result == PTHREAD_CANCELED ? "cancelled" : result == reinterpret_cast<void *>(5) ? "5" : "?");
    }
    int ends[2];
    MUST(pipe(ends) == 0);
    MUST(pthread_create(&thread, nullptr, waits_in_read, &ends[0]) == 0);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK("reader cancelled", result == PTHREAD_CANCELED);
    return 0;
}
