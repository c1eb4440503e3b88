// Ways into std::terminate: noexcept, a throwing destructor, an uncaught exception; the handler chooses the exit status.
#include "check.h"
#include <exception>
#include <stdexcept>
#include <sys/wait.h>

static void thrower() { throw 1; }
static void from_noexcept() noexcept { thrower(); }
struct Bad { ~Bad() noexcept(false) { throw 2; } };
static void from_destructor() { Bad bad; throw 3; }
static void from_rethrow() { throw; }
static void from_uncaught() { throw std::runtime_error("x"); }

static void run(const char *name, void (*body)(), int status) {
    pid_t child = fork();
    if (child == 0) {
        static int chosen;
        chosen = status;
        std::set_terminate([] {
            printf("terminate, %s exception\n", std::current_exception() ? "with" : "without");
            _exit(chosen);
        });
        body();
        _exit(99);
    }
    int result;
    waitpid(child, &result, 0);
    printf("%s: %d\n", name, WIFEXITED(result) ? WEXITSTATUS(result) : -WTERMSIG(result));
}

int main() {
    run("noexcept", from_noexcept, 11);
    run("destructor", from_destructor, 12);
    run("rethrow", from_rethrow, 13);
    run("uncaught", from_uncaught, 14);
    return 0;
}
