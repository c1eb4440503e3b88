// A title overruns its array into the pointer and the length of a record, and the system refuses to write that. Nothing of it is an
// access of the program itself; what it notices is that the call has failed.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "separate.h"

char title[32];
const char *record;
size_t record_length;

SEPARATE static void set_title(const char *text)
{
#ifdef FIXED
    if (strlen(text) >= sizeof title) {
        puts("title too long");
        fflush(stdout);
        return;
    }
#endif
    strcpy(title, text); /* mark: copy */
}

SEPARATE static unsigned prepare(void)
{
    unsigned sum = 1;
    for (int step = 0; step < 4000; step++)
        sum = sum * 1103515245u + 12345u;
    return sum;
}

SEPARATE static void save(int file, unsigned sum)
{
    ssize_t written = write(file, record, record_length); /* mark: write */
    if (written < 0 || sum == 0)
        abort(); /* mark: check */
    printf("%zd bytes\n", written);
}

int main(void)
{
    static char block[64], line[128];
    int ends[2];
    if (!fgets(line, sizeof line, stdin) || pipe(ends) != 0)
        return 2;
    line[strcspn(line, "\n")] = 0;
    record = block;
    record_length = sizeof block;
    set_title(line);
    save(ends[1], prepare());
    return 0;
}
