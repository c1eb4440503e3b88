// Five arrays and five pointers in one frame, which is never there twice. One array is overrun by three bytes, into the gap that its
// alignment leaves; one of the pointers is followed afterwards, and then the function returns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define LENGTH 24

SEPARATE static int copy_field(char *array, const char *text)
{
    strcpy(array, text); /* mark: copy */
    return array[0] != 0;
}

SEPARATE static void aim(const char **pointer, const char *at)
{
    *pointer = at;
}

SEPARATE static int print_address(char **fields)
{
    const char *first, *second, *third, *fourth, *layout;
    char name[LENGTH];
    char street[LENGTH];
    char town[LENGTH];
    char country[LENGTH];
    char phone[LENGTH];
#ifdef FIXED
    if (strlen(fields[1]) >= sizeof street) {
        puts("street too long");
        return 1;
    }
#endif
    copy_field(name, fields[0]);
    copy_field(town, fields[2]);
    copy_field(country, fields[3]);
    copy_field(phone, fields[4]);
    aim(&first, name);
    aim(&second, town);
    aim(&third, country);
    aim(&fourth, phone);
    aim(&layout, "; street of %zu\n");
    printf("%s, %s, %s, %s", first, second, third, fourth);
    copy_field(street, fields[1]);
    printf(layout, strlen(street));
    return 0;
}

int main(int argc, char **argv)
{
    return argc == 6 ? print_address(argv + 1) : 2;
}
