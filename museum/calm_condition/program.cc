// A bounded queue with predicates around every wait, closed once, read by several consumers.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

class Queue {
public:
    void put(int item)
    {
        std::unique_lock<std::mutex> guard(lock_);
        not_full_.wait(guard, [this] { return items_.size() < 4; });
        items_.push_back(item);
        not_empty_.notify_one();
    }

    std::optional<int> take()
    {
        std::unique_lock<std::mutex> guard(lock_);
        not_empty_.wait(guard, [this] { return !items_.empty() || closed_; });
        if (items_.empty())
            return std::nullopt;
        int item = items_.front();
        items_.pop_front();
        not_full_.notify_one();
        return item;
    }

    void close()
    {
        std::unique_lock<std::mutex> guard(lock_);
        closed_ = true;
        not_empty_.notify_all();
    }

private:
    std::mutex lock_;
    std::condition_variable not_full_, not_empty_;
    std::deque<int> items_;
    bool closed_ = false;
};

int main()
{
    Queue queue;
    std::vector<long> sums(3);
    std::vector<std::thread> consumers;
    for (long &sum : sums)
        consumers.emplace_back([&queue, &sum] {
            while (std::optional<int> item = queue.take())
                sum += *item;
        });
    std::thread producer([&queue] {
        for (int item = 1; item <= 40; item++)
            queue.put(item);
        queue.close();
    });
    producer.join();
    for (std::thread &consumer : consumers)
        consumer.join();
    long sum = 0;
    for (long part : sums)
        sum += part;
    std::printf("sum %ld\n", sum);
    return 0;
}
