// An exception that nobody catches.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

__attribute__((noinline)) static int limit_of(const char *text)
{
    return std::atoi(text) - 10; /* guilty */
}

__attribute__((noinline)) static void check(int limit)
{
    if (limit < 0)
        throw std::runtime_error("limit"); /* thrown */
}

int main(int argc, char **argv)
{
    int limit = limit_of(argc > 1 ? argv[1] : "3");
    check(limit);
    std::printf("%d\n", limit);
    return 0;
}
