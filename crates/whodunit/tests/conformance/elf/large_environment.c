// 200 KB of environment and many arguments: built by the first run of the program, checked by the second.
#include "check.h"

enum { VARIABLES = 200, WORDS = 3000 };
extern char **environ;

static void start_second(char *self) {
    static char *arguments[WORDS + 2], *environment[VARIABLES + 1];
    arguments[0] = self;
    for (int i = 0; i < WORDS; i++)
        MUST(asprintf(&arguments[i + 1], "word-%d", i) > 0);
    for (int i = 0; i < VARIABLES; i++) {
        environment[i] = malloc(1100);
        int used = sprintf(environment[i], "V%d=", i);
        memset(environment[i] + used, 'a' + i % 26, 1000);
        environment[i][used + 1000] = 0;
    }
    execve("/proc/self/exe", arguments, environment);
    MUST(!"exec");
}

int main(int argc, char **argv) {
    if (argc == 1)
        start_second(argv[0]);
    printf("%d arguments\n", argc);
    int wrong = 0;
    for (int i = 1; i < argc; i++)
        wrong += atoi(argv[i] + 5) != i - 1;
    CHECK("arguments in order", wrong == 0);
    CHECK("end of arguments", argv[argc] == NULL);
    int count = 0;
    for (char **variable = environ; *variable; variable++, count++)
        wrong += atoi(*variable + 1) != count || strlen(strchr(*variable, '=')) != 1001;
    printf("%d variables\n", count);
    CHECK("variables in order", wrong == 0);
    CHECK("getenv", getenv("V199") && getenv("V199")[999] == 'a' + 199 % 26);
    CHECK("strings lie in one block", argv[argc - 1] < environ[0] && environ[0] < environ[count - 1]);
    CHECK("setenv", setenv("NEW", "value", 1) == 0 && !strcmp(getenv("NEW"), "value"));
    CHECK("unsetenv", unsetenv("V0") == 0 && !getenv("V0") && getenv("V1"));
    return 0;
}
