// A program that reads its own code sees the bytes of its file, before and after running them.
//@ cc: -O1 -fno-pie -no-pie
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

extern char etext, __executable_start;
static unsigned long sum(const unsigned char *from, size_t size) { unsigned long s = 5381; for (size_t i = 0; i < size; i++) s = s * 33 + from[i]; return s; }
__attribute__((noinline)) static int work(int n) { int total = 0; for (int i = 0; i < n; i++) total += i ^ n; return total; }

int main(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    size_t size = lseek(file, 0, SEEK_END);
    unsigned char *image = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    MUST(image != MAP_FAILED);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(image + header->e_phoff);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < header->e_phnum; i++)
            if (segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_X)
                CHECK("code in memory is code in the file", sum((unsigned char *)segments[i].p_vaddr, segments[i].p_filesz) == sum(image + segments[i].p_offset, segments[i].p_filesz));
        printf("work %d\n", work(1000 + round));
    }
    const unsigned char *code = (const unsigned char *)work;
    unsigned char copy[16];
    memcpy(copy, code, 16);
    work(10);
    CHECK("function bytes stay", !memcmp(copy, code, 16));
    int memory = open("/proc/self/mem", O_RDONLY);
    unsigned char through[16];
    CHECK("the same through /proc/self/mem", pread(memory, through, 16, (off_t)(uintptr_t)code) == 16 && !memcmp(through, copy, 16));
    return 0;
}
