// What runs when a thread ends: pthread keys with destructors that set values again, thread_local objects, at_thread_exit.
//@ cc: -O1 -pthread
//@ threaded
#include "check.h"
#include <condition_variable>
#include <future>
#include <mutex>
#include <pthread.h>
#include <thread>

static pthread_key_t key, again;
static int rounds;

static void destroy(void *value) { printf("key holds %ld\n", static_cast<long>(reinterpret_cast<intptr_t>(value))); }
static void destroy_again(void *value) {
    if (++rounds < 4)
        pthread_setspecific(again, value); // asks for one more round
}
struct Local {
    int id = 0;
    Local() { puts("local made"); }
    ~Local() { printf("local %d destroyed\n", id); }
};
static thread_local Local local;
static thread_local int plain = 5;

int main() {
    MUST(pthread_key_create(&key, destroy) == 0 && pthread_key_create(&again, destroy_again) == 0);
    for (int i = 1; i <= 3; i++)
        std::thread([i] {
            pthread_setspecific(key, reinterpret_cast<void *>(static_cast<intptr_t>(i)));
            if (i == 2)
                pthread_setspecific(again, &rounds);
            local.id = i * 10;
            plain += i;
            printf("thread %d: plain %d\n", i, plain);
        }).join();
    printf("rounds %d\n", rounds);
    CHECK("other keys are empty", pthread_getspecific(key) == nullptr);
    CHECK("delete", pthread_key_delete(again) == 0);
    std::promise<int> promise;
    auto future = promise.get_future();
    std::thread([&] {
        local.id = 77;
        promise.set_value_at_thread_exit(9);
    }).join();
    printf("value at exit %d\n", future.get());
    pthread_key_t many[200];
    int made = 0;
    while (made < 200 && pthread_key_create(&many[made], nullptr) == 0)
        pthread_setspecific(many[made], &many[made]), made++;
    int right = 0;
    for (int i = 0; i < made; i++)
        right += pthread_getspecific(many[i]) == &many[i];
    printf("keys %d right %d\n", made, right);
    local.id = 1; // main's copy dies with the process
    return 0;
}
