// The C++ standard library: thread, async, future, shared_mutex, condition_variable, latch, barrier, semaphore, atomic wait, jthread.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

template <typename Body> static void in_threads(int n, Body body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < n; i++) threads.emplace_back(body, i);
    for (auto &thread : threads) thread.join();
}

static void locks() {
    std::mutex mutex;
    std::shared_mutex shared;
    std::recursive_mutex recursive;
    int counter = 0, written = 0, nested = 0;
    in_threads(6, [&](int id) {
        for (int i = 0; i < 500; i++) {
            { std::lock_guard guard(mutex); counter++; }
            if (i % 6 == id) { std::unique_lock guard(shared); written++; }
            else { std::shared_lock guard(shared); if (written < 0) abort(); }
            std::scoped_lock both(recursive, mutex);
            std::lock_guard again(recursive);
            nested++;
        }
    });
    printf("counter %d written %d nested %d\n", counter, written, nested);
    std::once_flag once;
    std::atomic<int> calls = 0;
    in_threads(4, [&](int) { std::call_once(once, [&] { calls++; }); });
    printf("once %d\n", calls.load());
}

static void futures() {
    std::vector<std::future<long>> parts;
    for (int i = 0; i < 5; i++)
        parts.push_back(std::async(std::launch::async, [i] { long sum = 0; for (int j = 0; j < 10000; j++) sum += j * i; return sum; }));
    for (auto &part : parts) printf("part %ld\n", part.get());
    std::packaged_task<int(int)> task([](int x) { return x * x; });
    auto result = task.get_future();
    std::thread(std::move(task), 9).join();
    printf("task %d\n", result.get());
    std::promise<void> go;
    std::shared_future<void> ready(go.get_future());
    std::atomic<int> passed = 0;
    std::thread releaser([&] { go.set_value(); });
    in_threads(3, [&](int) { ready.wait(); passed++; });
    releaser.join();
    printf("passed %d\n", passed.load());
}

static void newer() {
    std::latch latch(4);
    std::barrier barrier(4, [n = 0]() mutable noexcept { printf("phase %d\n", n++); });
    std::counting_semaphore<3> semaphore(0);
    std::atomic<int> stage = 0;
    in_threads(5, [&](int id) {
        if (id == 4) {
            latch.wait();
            stage = 1;
            stage.notify_all();
            for (int i = 0; i < 4; i++) semaphore.acquire();
            return;
        }
        latch.count_down();
        stage.wait(0);
        for (int i = 0; i < 3; i++) barrier.arrive_and_wait();
        semaphore.release();
    });
    int rounds = 0;
    std::mutex mutex;
    std::condition_variable_any changed;
    std::jthread worker([&](std::stop_token stop) {
        std::unique_lock lock(mutex);
        while (!changed.wait(lock, stop, [&] { return false; })) { rounds++; break; }
    });
    worker.request_stop();
    worker.join();
    printf("stopped after %d\n", rounds);
    auto shared = std::make_shared<int>(3);
    in_threads(4, [&](int) { for (int i = 0; i < 500; i++) { auto copy = shared; (void)copy; } });
    printf("references %ld\n", shared.use_count());
}

int main() {
    locks();
    futures();
    newer();
    CHECK("threads available", std::thread::hardware_concurrency() >= 1);
    return 0;
}
