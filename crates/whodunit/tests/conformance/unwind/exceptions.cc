// C++ exceptions inside one program: nesting, rethrow, values and types, cleanups on the way, deep stacks.
//@ cc: -O2
#include "check.h"
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

struct Tracer {
    const char *name;
    explicit Tracer(const char *n) : name(n) { printf("enter %s\n", name); }
    ~Tracer() { printf("leave %s%s\n", name, std::uncaught_exceptions() ? " unwinding" : ""); }
};

struct Base { virtual ~Base() = default; virtual int id() const { return 1; } };
struct Derived : Base { int id() const override { return 2; } };

__attribute__((noinline)) static void thrower(int kind) {
    Tracer tracer("thrower");
    switch (kind) {
    case 0: throw 42;
    case 1: throw std::string("a string");
    case 2: throw Derived();
    case 3: throw std::runtime_error("runtime error");
    case 4: throw 2.5;
    case 5: throw "literal";
    case 6: throw nullptr;
    }
}

static void catch_kinds() {
    for (int kind = 0; kind <= 7; kind++) {
        try {
            Tracer tracer("try");
            thrower(kind);
            printf("nothing thrown\n");
        } catch (int value) { printf("int %d\n", value);
        } catch (const std::string &text) { printf("string %s\n", text.c_str());
        } catch (const Base &base) { printf("base %d\n", base.id());
        } catch (const std::exception &error) { printf("std %s\n", error.what());
        } catch (const char *text) { printf("literal %s\n", text);
        } catch (...) { printf("other\n"); }
    }
}

static void nested_and_rethrown() {
    try {
        try {
            try { throw std::logic_error("inner"); }
            catch (...) { Tracer tracer("handler"); std::throw_with_nested(std::runtime_error("outer")); }
        } catch (const std::exception &error) { printf("passing on %s\n", error.what()); throw; }
    } catch (const std::exception &error) {
        printf("caught %s\n", error.what());
        try { std::rethrow_if_nested(error); }
        catch (const std::exception &inner) { printf("nested %s\n", inner.what()); }
    }
    std::exception_ptr kept;
    try { throw 7; } catch (...) { kept = std::current_exception(); }
    for (int i = 0; i < 3; i++)
        try { std::rethrow_exception(kept); } catch (int value) { printf("kept %d\n", value + i); }
}

__attribute__((noinline)) static int deep(int depth) {
    std::unique_ptr<int> owned(new int(depth));
    volatile char pad[64];
    pad[depth % 64] = 1;
    if (depth == 0)
        throw std::out_of_range("bottom");
    return deep(depth - 1) + *owned + pad[depth % 64];
}

static void function_try_and_standard() {
    try { std::vector<int>(3).at(10); } catch (const std::out_of_range &) { puts("at"); }
    try { (void)std::stoi("none"); } catch (const std::invalid_argument &) { puts("stoi"); }
    try { delete[] new char[~0ull >> 2]; } catch (const std::bad_alloc &) { puts("bad_alloc"); }
    try { Base base; (void)dynamic_cast<Derived &>(base); } catch (const std::bad_cast &) { puts("bad_cast"); }
}

int main() {
    catch_kinds();
    nested_and_rethrown();
    for (int depth : {10, 1000, 5000})
        try { deep(depth); } catch (const std::out_of_range &error) { printf("from depth %d: %s\n", depth, error.what()); }
    function_try_and_standard();
    int thrown = 0;
    for (int i = 0; i < 2000; i++)
        try { if (i % 3) throw i; } catch (int value) { thrown += value; }
    printf("sum %d\n", thrown);
    return 0;
}
