// Standard input from a file: scanned, sought, reread.
//@ cc: -O1
//@ stdin: 12 abc 3.5 rest of the line
#include "check.h"

int main(void) {
    int number;
    char word[16], rest[64];
    double real;
    printf("%d items\n", scanf("%d %15s %lf", &number, word, &real));
    printf("%d %s %g\n", number, word, real);
    printf("%s", fgets(rest, sizeof rest, stdin));
    CHECK("at the end", fgetc(stdin) == EOF);
    rewind(stdin);
    printf("again %d\n", fgetc(stdin));
    CHECK("seek", lseek(0, 3, SEEK_SET) == 3 && read(0, word, 3) == 3 && !memcmp(word, "abc", 3));
    CHECK("empty read", read(0, word, 0) == 0);
    return 0;
}
