// Order of constructors, init arrays, atexit handlers and destructors, in the program and in a library it needs.
//@ lib: -O1
//@ cc: {lib}
#include <stdio.h>
#include <stdlib.h>

#ifdef LIB
__attribute__((constructor)) static void library_start(void) { puts("library start"); }
__attribute__((destructor)) static void library_end(void) { puts("library end"); }
int library_value(void) { return 4; }
#else
int library_value(void);
static int started;

static void early(int argc, char **argv, char **envp) {
    printf("preinit with %d arguments, %s\n", argc, argv[argc] == NULL && envp ? "whole" : "broken");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **) = early;
__attribute__((constructor(200))) static void second(void) { printf("second, %d\n", started++); }
__attribute__((constructor(101))) static void first(void) { printf("first, %d\n", started++); }
__attribute__((constructor)) static void third(void) { printf("third, %d\n", started++); }
__attribute__((destructor(101))) static void last(void) { puts("last"); }
__attribute__((destructor)) static void before_last(void) { puts("before last"); }
static void at_exit_one(void) { puts("exit one"); }
static void at_exit_nested(void) { puts("exit nested"); }
static void at_exit_two(void) {
    puts("exit two");
    atexit(at_exit_nested);
}
static void on_exit_handler(int status, void *argument) { printf("on_exit %d %s\n", status, (char *)argument); }

int main(void) {
    printf("main, %d started, library says %d\n", started, library_value());
    atexit(at_exit_one);
    atexit(at_exit_two);
    on_exit(on_exit_handler, "argument");
    exit(6);
}
#endif
