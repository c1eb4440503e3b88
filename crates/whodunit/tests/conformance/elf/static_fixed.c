// A static executable: no interpreter, ifuncs resolved by its own start-up, thread-local data in place.
//@ cc: -static -pthread
#include "check.h"
#include <pthread.h>
#include <sys/auxv.h>

static __thread int counter = 41;
static __thread char buffer[100];

static void *bump(void *unused) {
    (void)unused;
    counter++;
    return (void *)(intptr_t)(counter + buffer[50]);
}

int main(void) {
    pthread_t thread;
    void *result;
    counter += 10;
    MUST(pthread_create(&thread, NULL, bump, NULL) == 0);
    pthread_join(thread, &result);
    CHECK("own copy in the thread", (intptr_t)result == 42);
    CHECK("own copy in main", counter == 51);
    CHECK("no interpreter", getauxval(AT_BASE) == 0);
    char text[64];
    memset(text, 'x', sizeof text);
    text[63] = 0;
    printf("%zu %d\n", strlen(text), memcmp(text, text + 1, 62));
    return 0;
}
