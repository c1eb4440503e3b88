// A program under AddressSanitizer that loses nothing: the leak check at its end passes, and its own status stays.
//@ cc: -g -O1 -pthread -fsanitize=address
#include "check.h"
#include <pthread.h>

static char *volatile kept;
static void *worker(void *size) { char *block = malloc((size_t)size); memset(block, 1, (size_t)size); return block; }

int main(void) {
    pthread_t thread;
    void *block;
    MUST(pthread_create(&thread, NULL, worker, (void *)1000) == 0);
    pthread_join(thread, &block);
    kept = malloc(50);
    CHECK("worked", ((char *)block)[999] == 1 && kept);
    free(block);
    return 5;
}
