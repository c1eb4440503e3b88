// Exceptions that cross a shared library both ways, and one loaded at run time.
//@ lib: -O2
//@ cc: {lib}
#include "check.h"
#include <dlfcn.h>
#include <stdexcept>

struct Cleanup {
    const char *name;
    ~Cleanup() { printf("cleanup %s\n", name); }
};

#ifdef LIB
extern "C" void library_call(void (*callback)(int), int n) {
    Cleanup cleanup{"library"};
    callback(n);
}
extern "C" void library_throw() { throw std::runtime_error("from the library"); }
extern "C" int library_catch(void (*callback)(int)) {
    try { callback(1); } catch (int value) { return value; } catch (const std::exception &) { return -1; }
    return 0;
}
#else
extern "C" void library_call(void (*callback)(int), int n);
extern "C" void library_throw();
extern "C" int library_catch(void (*callback)(int));

static void thrower(int n) {
    Cleanup cleanup{"program"};
    if (n > 0)
        library_call(thrower, n - 1);
    throw n;
}

int main() {
    try { library_call(thrower, 2); } catch (int value) { printf("through the library: %d\n", value); }
    try { library_throw(); } catch (const std::runtime_error &error) { puts(error.what()); }
    printf("caught inside: %d\n", library_catch([](int) { throw 55; }));
    printf("caught inside: %d\n", library_catch([](int) { throw std::logic_error("x"); }));
    void *again = dlopen(LIB_PATH, RTLD_NOW | RTLD_LOCAL);
    MUST(again);
    auto throws = reinterpret_cast<void (*)()>(dlsym(again, "library_throw"));
    try { throws(); } catch (const std::exception &error) { printf("by pointer: %s\n", error.what()); }
    dlclose(again);
    return 0;
}
#endif
