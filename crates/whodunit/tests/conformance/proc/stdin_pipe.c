// Standard input from a pipe: line by line, by blocks, to the end.
//@ cc: -O1
//@ run: { printf 'first line\nsecond\n'; head -c 200000 /dev/zero | tr '\0' x; printf '\nlast, no newline'; } | "$@"
#include "check.h"
#include <sys/stat.h>

int main(void) {
    struct stat status;
    fstat(0, &status);
    CHECK("a pipe", S_ISFIFO(status.st_mode));
    CHECK("no terminal", !isatty(0) && errno == ENOTTY);
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;)
        printf("%zd: %.20s%s", n, line, n > 20 ? "...\n" : line[n - 1] == '\n' ? "" : "\n");
    CHECK("end", feof(stdin) && getchar() == EOF && read(0, line, 1) == 0);
    return 0;
}
