// ThreadSanitizer accepts the address layout, and threads that lock properly pass.
//@ cc: -g -O1 -pthread -fsanitize=thread
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;
static void *worker(void *block) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    memset(block, 1, 4096);
    return malloc(10);
}

int main(void) {
    pthread_t threads[4];
    char *blocks = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(blocks != MAP_FAILED);
    for (int i = 0; i < 4; i++) MUST(pthread_create(&threads[i], NULL, worker, blocks + 4096 * i) == 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        free(result);
    }
    CHECK("all counted", counter == 2000);
    char *large = malloc(64 << 20);
    large[32 << 20] = 1;
    CHECK("large block", large[32 << 20] == 1);
    free(large);
    return 0;
}
