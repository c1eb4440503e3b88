// An exception that nobody catches: std::terminate, its message and the terminating signal.
//@ crashes
#include "check.h"
#include <stdexcept>

struct Never { ~Never() { puts("cleanup"); } };

int main() {
    puts("before");
    Never never;
    throw std::runtime_error("nobody catches this");
}
