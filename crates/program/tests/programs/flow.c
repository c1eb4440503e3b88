// Functions whose control flow is known, for every way in which compilers write it down.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) int choose(int which, int value)
{
    switch (which) {
    case 0: return value * 3 + 1;
    case 1: printf("one\n"); value += 7; break;
    case 2: value ^= 0x55; break;
    case 3: puts("three"); value -= 9; break;
    case 4: value = value / 3; break;
    case 5: value = value * value; break;
    case 6: printf("six %d\n", value); break;
    default: return -1;
    }
    return value + which;
}

__attribute__((noipa)) int nested(int rows, int columns)
{
    volatile int sum = 0;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            sum += row * column;
    return sum;
}

__attribute__((noipa)) int checked(int value)
{
    if (value < 0)
        abort();
    return value + 1;
}

int main(int argc, char **argv)
{
    (void)argv;
    return choose(argc, argc) + nested(argc, argc) + checked(argc) > 100;
}
