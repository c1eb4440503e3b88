// What guards of the compiler and of the C library notice: a return address about to be lost, and too little room.
#include <stdio.h>
#include <string.h>

static char label[8];

__attribute__((noinline)) static int keep(const char *text)
{
    char room[16];
    char *to = room;
    while (*text)
        *to++ = *text++; /* overrun */
    *to = 0;
    return room[0];
}

__attribute__((noinline)) static void set_label(const char *text)
{
    strcpy(label, text); /* copy */
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (!strcmp(argv[1], "keep"))
        printf("%d\n", keep(argv[2]));
    else
        set_label(argv[2]);
    puts("done");
    return 0;
}
