// /proc/self/cmdline and environ hold the program's own words.
//@ cc: -O1
//@ args: one two three
//@ env: MARKER=present
#include "check.h"
#include <fcntl.h>

static char text[1 << 16];
static ssize_t contents(const char *name) { int file = open(name, O_RDONLY); ssize_t n = read(file, text, sizeof text); close(file); return n; }
int main(int argc, char **argv) {
    ssize_t size = contents("/proc/self/cmdline"), at = 0;
    int word = 0, wrong = 0;
    for (; at < size; at += strlen(text + at) + 1, word++) {
        wrong += word >= argc || strcmp(text + at, argv[word]);
        if (word) printf("%s\n", text + at);
    }
    printf("%d words, wrong %d\n", word, wrong);
    size = contents("/proc/self/environ");
    int marker = 0, foreign = 0;
    for (at = 0; at < size; at += strlen(text + at) + 1) {
        marker += !strcmp(text + at, "MARKER=present");
        foreign += !strncmp(text + at, "WHODUNIT", 8) || !strncmp(text + at, "LD_", 3);
    }
    printf("marker %d, foreign %d\n", marker, foreign);
    CHECK("getenv", getenv("MARKER") != NULL);
    extern char **environ;
    int variables = 0;
    for (char **variable = environ; *variable; variable++) { variables++; foreign += !strncmp(*variable, "WHODUNIT", 8); }
    CHECK("nothing foreign", foreign == 0);
    CHECK("few variables", variables >= 3 && variables <= 6);
    return 0;
}
