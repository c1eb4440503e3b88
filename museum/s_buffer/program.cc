// A string buffer whose methods are all locked: append(other) asks for the other's length and then for its characters.
#include <cassert>
#include <cstdio>
#include <cstring>
#include <pthread.h>

#include "show.h"

SHOW_ORDER("asked", "erasing", "erased", "copying");

class StringBuffer {
public:
    explicit StringBuffer(const char *text) : length_(strlen(text))
    {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&lock_, &attributes);
        memcpy(characters_, text, length_);
    }

    __attribute__((noinline)) size_t length()
    {
        Guard guard(&lock_);
        return length_; /* guilty: length */
    }

    void get_chars(size_t begin, size_t end, char *to)
    {
        Guard guard(&lock_);
        assert(begin <= end && end <= length_); /* guilty: check */
        memcpy(to, characters_ + begin, end - begin);
    }

    void erase(size_t begin, size_t end)
    {
        Guard guard(&lock_);
        if (end > length_)
            end = length_;
        if (begin >= end)
            return;
        memmove(characters_ + begin, characters_ + end, length_ - end);
        length_ -= end - begin; /* guilty: erase */
    }

    void append(StringBuffer &other)
    {
        Guard guard(&lock_);
#ifdef FIXED
        Guard other_guard(&other.lock_);
#endif
        size_t count = other.length();
        AT("asked");
        if (length_ + count > sizeof characters_)
            length_ = 0;
        AT("copying");
        other.get_chars(0, count, characters_ + length_);
        length_ += count;
    }

    void assign(const char *text)
    {
        Guard guard(&lock_);
        length_ = strlen(text);
        memcpy(characters_, text, length_);
    }

private:
    struct Guard {
        explicit Guard(pthread_mutex_t *mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
        ~Guard() { pthread_mutex_unlock(mutex_); }
        pthread_mutex_t *mutex_;
    };

    pthread_mutex_t lock_;
    size_t length_;
    char characters_[256];
};

static StringBuffer message("a message to be appended");
static int n_erased;

static void *append_message(void *)
{
    StringBuffer page("page: ");
    for (int round = 0; round < 10; round++) {
        message.assign("a message to be appended"); // the appending thread has set the length itself
        page.append(message);
        if (message.length() == 0) // meanwhile somebody is done with it
            n_erased++;
    }
    return nullptr;
}

static void *erase_message(void *)
{
    for (int round = 0; round < 10; round++) {
        AT("erasing");
        message.erase(0, 100);
        AT("erased");
    }
    return nullptr;
}

int main()
{
    pthread_t appender, eraser;
    pthread_create(&appender, nullptr, append_message, nullptr);
    pthread_create(&eraser, nullptr, erase_message, nullptr);
    pthread_join(appender, nullptr);
    pthread_join(eraser, nullptr);
    puts("appended 10, erased 10");
    return 0;
}
