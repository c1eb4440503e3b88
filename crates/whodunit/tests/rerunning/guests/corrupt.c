// One value is made, and everything else depends on it, each time in another way. What it leads to is wrong if it is used:
// a plan leaves its making out, with all that depends on it, and the rest must go on as if nothing had been.
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((naked)) long make(long value)
{
    __asm__("lea (%rdi), %rax\n\tret");
}

static long table[8];

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        exit(3);
}

__attribute__((noinline)) static void overrun(long value)
{
    volatile long cells[4];
    for (volatile int index = 0; index < 12; index++)
        cells[index] = value;
}

__attribute__((noinline)) static int early(long value)
{
    if (value > 1000)
        return 1;
    table[1]++;
    if (value > 100)
        return 2;
    table[2]++;
    return 3;
}

// Stores through a frame pointer that was made of the value.
__attribute__((naked)) static void borrow_frame(long value)
{
    __asm__("push %rbp\n\tmov %rdi, %rbp\n\tmovb $1, (%rbp)\n\tpop %rbp\n\tret");
}

// Gives the caller the value for its frame pointer.
__attribute__((naked)) static void spoil_frame(long value)
{
    __asm__("push %rbp\n\tmov %rdi, (%rsp)\n\tpop %rbp\n\tret");
}

__attribute__((noinline, optimize("no-omit-frame-pointer", "O0"))) static void with_frame(long value)
{
    volatile int before = 1;
    spoil_frame(value);
    before++;
}

static void in_vain(void)
{
    say("called\n");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    static char from[64], to[64];
    long value = make(0x1234567);
    if (!strcmp(way, "pointer"))
        *(volatile char *)value = 1;
    else if (!strcmp(way, "index"))
        table[value] = 1;
    else if (!strcmp(way, "call"))
        ((void (*)(void))value)();
    else if (!strcmp(way, "good-call"))
        ((void (*)(void))((char *)in_vain + value - 0x1234567))();
    else if (!strcmp(way, "branch")) {
        if (value > 5)
            *(volatile char *)8 = 1;
        else
            table[3] = 1;
    } else if (!strcmp(way, "loop")) {
        for (long index = 0; index < value; index++)
            table[index] = index;
    } else if (!strcmp(way, "length"))
        memcpy(to, from, value);
    else if (!strcmp(way, "fill"))
        memset(to, 1, value * 16);
    else if (!strcmp(way, "stack"))
        overrun(value);
    else if (!strcmp(way, "frame"))
        borrow_frame(value);
    else if (!strcmp(way, "saved-frame"))
        with_frame(value);
    else if (!strcmp(way, "two")) {
        *(volatile char *)value = 1;
        *(volatile char *)make(0x2345678) = 1;
    } else if (!strcmp(way, "room"))
        *(volatile char *)alloca(value * 16) = 1;
    else if (!strcmp(way, "result")) {
        if (early(value) == 1)
            *(volatile char *)8 = 1;
    } else if (!strcmp(way, "division"))
        table[0] = 100 / (value - 0x1234567);
    else if (!strcmp(way, "output"))
        table[0] = write(1, &value, sizeof value);
    else if (!strcmp(way, "cleared")) {
        value = argc;
        if (value == 2)
            say("clean again\n");
    }
    say("after\n");
    return 0;
}
