// Exceptions thrown and caught in many threads at once, carried between threads, and through futures.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

static std::atomic<int> live;
struct Counted { Counted() { live++; } ~Counted() { live--; } };

__attribute__((noinline)) static void nest(int depth, int value) {
    Counted counted;
    if (depth == 0)
        throw value;
    nest(depth - 1, value);
}

int main() {
    std::vector<long> sums(8);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t, &sums] {
            for (int i = 0; i < 100; i++)
                try { nest(i % 20, t * 1000 + i); } catch (int value) { sums[t] += value; }
        });
    for (auto &thread : threads)
        thread.join();
    for (long sum : sums)
        printf("%ld\n", sum);
    CHECK("all destroyed", live == 0);

    std::exception_ptr carried;
    std::thread([&] { try { throw std::runtime_error("carried"); } catch (...) { carried = std::current_exception(); } }).join();
    try { std::rethrow_exception(carried); } catch (const std::exception &error) { puts(error.what()); }

    auto future = std::async(std::launch::async, []() -> int { throw std::logic_error("from the future"); });
    try { future.get(); } catch (const std::logic_error &error) { puts(error.what()); }
    std::future<int> broken;
    { std::promise<int> promise; broken = promise.get_future(); }
    try { broken.get(); } catch (const std::future_error &) { puts("broken promise"); }
    return 0;
}
