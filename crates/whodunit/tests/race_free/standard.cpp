// Programs without data races, on what C++ offers for synchronisation. The argument names one.
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 200;

void in_threads(const std::function<void(int)> &work) {
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; number++)
        threads.emplace_back(work, number);
    for (auto &thread : threads)
        thread.join();
}

long mutex_counter() {
    std::mutex mutex;
    long counter = 0;
    in_threads([&](int) {
        for (int round = 0; round < kRounds; round++) {
            std::lock_guard<std::mutex> guard(mutex);
            counter++;
        }
    });
    return counter;
}

long recursive_and_timed() {
    std::recursive_mutex recursive;
    std::timed_mutex timed;
    long sum = 0, tries = 0;
    in_threads([&](int number) {
        for (int round = 0; round < kRounds; round++) {
            std::lock_guard<std::recursive_mutex> outer(recursive);
            std::lock_guard<std::recursive_mutex> inner(recursive);
            sum += number;
        }
        while (!timed.try_lock_for(std::chrono::milliseconds(100))) {
        }
        tries++;
        timed.unlock();
    });
    return sum + tries;
}

long shared_mutex_cache() {
    std::shared_mutex mutex;
    std::map<int, std::string> cache;
    std::atomic<long> hits{0};
    in_threads([&](int number) {
        for (int round = 0; round < kRounds; round++) {
            int key = (round + number) % 17;
            {
                std::shared_lock<std::shared_mutex> lock(mutex);
                if (cache.count(key)) {
                    hits += static_cast<long>(cache.at(key).size() > 0);
                    continue;
                }
            }
            std::unique_lock<std::shared_mutex> lock(mutex);
            cache.emplace(key, "value " + std::to_string(key));
        }
    });
    return static_cast<long>(cache.size());
}

long condition_queue() {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<int> queue;
    bool closed = false;
    std::atomic<long> sum{0};
    std::thread producer([&] {
        for (int number = 1; number <= kRounds; number++) {
            std::lock_guard<std::mutex> guard(mutex);
            queue.push_back(number);
            filled.notify_one();
        }
        std::lock_guard<std::mutex> guard(mutex);
        closed = true;
        filled.notify_all();
    });
    in_threads([&](int) {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex);
            filled.wait(lock, [&] { return closed || !queue.empty(); });
            if (queue.empty())
                return;
            sum += queue.front();
            queue.pop_front();
        }
    });
    producer.join();
    return sum;
}

long atomic_counter() {
    std::atomic<long> counter{0};
    in_threads([&](int) {
        for (int round = 0; round < kRounds; round++)
            counter.fetch_add(1, std::memory_order_relaxed);
    });
    return counter;
}

// Release and acquire are plain moves on this processor.
long published_flag() {
    long payload = 0;
    std::atomic<bool> ready{false};
    std::thread reader([&] {
        while (!ready.load(std::memory_order_acquire))
            std::this_thread::yield();
        payload++;
    });
    payload = 41;
    ready.store(true, std::memory_order_release);
    reader.join();
    return payload;
}

// Nobody waits in a loop: the reader may find nothing.
long published_pointer() {
    std::atomic<std::string *> current{nullptr};
    long seen = 0;
    std::thread writer([&] {
        for (int round = 0; round < kRounds; round++)
            current.store(new std::string(static_cast<size_t>(round % 7 + 1), 'x'), std::memory_order_release);
    });
    for (int round = 0; round < kRounds; round++)
        if (std::string *text = current.load(std::memory_order_acquire))
            seen += static_cast<long>(text->size());
    writer.join();
    return seen > 0 || current.load() ? 1 : 0;
}

long ring_buffer() {
    constexpr unsigned kSize = 16;
    long slots[kSize];
    std::atomic<unsigned> head{0}, tail{0};
    std::thread producer([&] {
        for (long number = 1; number <= kRounds;) {
            unsigned at = head.load(std::memory_order_relaxed);
            if (at - tail.load(std::memory_order_acquire) == kSize) {
                std::this_thread::yield();
                continue;
            }
            slots[at % kSize] = number++;
            head.store(at + 1, std::memory_order_release);
        }
    });
    long sum = 0;
    for (long taken = 0; taken < kRounds;) {
        unsigned at = tail.load(std::memory_order_relaxed);
        if (at == head.load(std::memory_order_acquire)) {
            std::this_thread::yield();
            continue;
        }
        sum += slots[at % kSize];
        tail.store(at + 1, std::memory_order_release);
        taken++;
    }
    producer.join();
    return sum;
}

long once_and_statics() {
    static std::once_flag flag;
    static long value = 0;
    std::atomic<long> sum{0};
    in_threads([&](int) {
        std::call_once(flag, [] { value = 5; });
        static const std::string *text = new std::string("initialised once");
        sum += value + static_cast<long>(text->size());
    });
    return sum;
}

long futures_and_promises() {
    std::promise<std::vector<int>> promise;
    std::future<std::vector<int>> future = promise.get_future();
    std::thread maker([&] { promise.set_value(std::vector<int>(100, 3)); });
    long sum = 0;
    for (int number : future.get())
        sum += number;
    maker.join();
    std::future<long> other = std::async(std::launch::async, [sum] { return sum * 2; });
    return other.get();
}

long barriers_latches_semaphores() {
    std::barrier barrier(kThreads);
    std::latch latch(kThreads);
    std::counting_semaphore<8> permits(1);
    long cells[kThreads] = {}, total = 0;
    in_threads([&](int number) {
        for (int round = 1; round <= 20; round++) {
            cells[number] += round;
            barrier.arrive_and_wait();
            long sum = 0;
            for (long cell : cells)
                sum += cell;
            barrier.arrive_and_wait();
            permits.acquire();
            total += sum;
            permits.release();
        }
        latch.arrive_and_wait();
    });
    return total;
}

long shared_pointers() {
    auto shared = std::make_shared<std::vector<int>>(50, 2);
    std::atomic<long> sum{0};
    in_threads([&, shared](int) {
        for (int round = 0; round < 20; round++) {
            std::shared_ptr<const std::vector<int>> mine = shared;
            sum += mine->at(static_cast<size_t>(round));
        }
    });
    return sum;
}

long thread_locals_and_join() {
    static thread_local long own = 0;
    std::vector<long> results(kThreads);
    in_threads([&](int number) {
        for (int round = 0; round < kRounds; round++)
            own += round;
        results[static_cast<size_t>(number)] = own;
    });
    long sum = 0;
    for (long result : results)
        sum += result;
    return sum;
}

const struct {
    const char *name;
    long (*run)();
} kPrograms[] = {
    {"mutex_counter", mutex_counter},
    {"recursive_and_timed", recursive_and_timed},
    {"shared_mutex_cache", shared_mutex_cache},
    {"condition_queue", condition_queue},
    {"atomic_counter", atomic_counter},
    {"published_flag", published_flag},
    {"published_pointer", published_pointer},
    {"ring_buffer", ring_buffer},
    {"once_and_statics", once_and_statics},
    {"futures_and_promises", futures_and_promises},
    {"barriers_latches_semaphores", barriers_latches_semaphores},
    {"shared_pointers", shared_pointers},
    {"thread_locals_and_join", thread_locals_and_join},
};

} // namespace

int main(int count, char **words) {
    for (const auto &program : kPrograms)
        if (count == 2 && std::strcmp(words[1], program.name) == 0) {
            std::printf("%ld\n", program.run());
            return 0;
        }
    for (const auto &program : kPrograms)
        std::printf("%s\n", program.name);
    return count == 1 ? 0 : 2;
}
