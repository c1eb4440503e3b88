// The auxiliary vector describes the program, not whoever loaded it.
//@ cc: -fPIE -pie
#include "check.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

extern char **environ;
extern char _start;

int main(int argc, char **argv) {
    char **after = environ;
    while (*after)
        after++;
    const Elf64_auxv_t *entry = (const Elf64_auxv_t *)(after + 1);
    unsigned seen[64] = {0};
    int count = 0;
    for (; entry->a_type != AT_NULL && count < 64; entry++, count++) {
        if (entry->a_type < 64)
            seen[entry->a_type]++;
        if (entry->a_type == AT_PHDR || entry->a_type == AT_ENTRY || entry->a_type == AT_RANDOM)
            CHECK("getauxval agrees", getauxval(entry->a_type) == entry->a_un.a_val);
    }
    CHECK("vector ends", count < 64);
    const int required[] = {AT_PAGESZ, AT_PHDR, AT_PHENT, AT_PHNUM, AT_BASE, AT_ENTRY, AT_UID,   AT_EUID,
                            AT_GID,    AT_EGID, AT_CLKTCK, AT_RANDOM, AT_EXECFN, AT_HWCAP, AT_SECURE, AT_PLATFORM};
    for (unsigned i = 0; i < sizeof required / sizeof *required; i++)
        printf("entry %d: %u\n", required[i], seen[required[i]]);
    CHECK("page size", getauxval(AT_PAGESZ) == 4096);
    CHECK("clock ticks", getauxval(AT_CLKTCK) == 100);
    CHECK("entry point", getauxval(AT_ENTRY) == (uintptr_t)&_start);
    CHECK("name of the file", strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
    CHECK("platform", strcmp((char *)getauxval(AT_PLATFORM), "x86_64") == 0);
    CHECK("not secure mode", getauxval(AT_SECURE) == 0);
    CHECK("user", getauxval(AT_UID) == getuid() && getauxval(AT_EGID) == getegid());
    const unsigned char *bytes = (const unsigned char *)getauxval(AT_RANDOM);
    unsigned set = 0;
    for (int i = 0; i < 16; i++)
        set |= bytes[i];
    CHECK("random bytes", set != 0);
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    CHECK("program header size", getauxval(AT_PHENT) == sizeof *headers);
    int interpreters = 0, loads = 0;
    for (unsigned i = 0; i < getauxval(AT_PHNUM); i++) {
        interpreters += headers[i].p_type == PT_INTERP;
        loads += headers[i].p_type == PT_LOAD;
    }
    printf("%d interpreter, %d loads\n", interpreters, loads);
    const Elf64_Ehdr *loader = (const Elf64_Ehdr *)getauxval(AT_BASE);
    CHECK("base is the interpreter", memcmp(loader->e_ident, ELFMAG, SELFMAG) == 0 && loader->e_type == ET_DYN);
    uintptr_t top = (uintptr_t)getauxval(AT_EXECFN);
    CHECK("name lies above the stack", top > (uintptr_t)&top);
    CHECK("arguments lie above the stack", (uintptr_t)argv > (uintptr_t)&top && argc == 1);
    return 0;
}
