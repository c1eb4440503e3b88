// argv[0] is what the caller chose; the kernel's view of the program follows the file.
#include "check.h"
#include <libgen.h>
#include <sys/auxv.h>

int main(int argc, char **argv) {
    if (argc == 1) {
        CHECK("first run: argv[0] is the path", argv[0][0] == '/' && strcmp(basename(argv[0]), "argv0") == 0);
        CHECK("program_invocation_short_name", strcmp(program_invocation_short_name, "argv0") == 0);
        char self[4096] = {0};
        MUST(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
        execl(self, "another name entirely", "again", "", "with blanks and 'quotes'", NULL);
        MUST(!"exec");
    }
    for (int i = 0; i < argc; i++)
        printf("[%s]\n", argv[i]);
    printf("%s\n", program_invocation_name);
    CHECK("AT_EXECFN is the file", strstr((char *)getauxval(AT_EXECFN), "/argv0") != NULL);
    char self[4096] = {0};
    MUST(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    CHECK("exe is the file", strcmp(basename(self), "argv0") == 0);
    return 0;
}
