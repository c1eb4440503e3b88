// Which processor a program sees: cpuid, xgetbv, the auxiliary vector, signal frames, and areas for register state.
//@ cc: -O1
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

enum { EBX = 1, ECX = 2, EDX = 3 };
static const struct { const char *name; uint32_t leaf, subleaf; int reg, bit; } features[] = {
    {"pni", 1, 0, ECX, 0}, {"ssse3", 1, 0, ECX, 9}, {"cx16", 1, 0, ECX, 13}, {"sse4_1", 1, 0, ECX, 19},
    {"sse4_2", 1, 0, ECX, 20}, {"popcnt", 1, 0, ECX, 23}, {"fma", 1, 0, ECX, 12}, {"movbe", 1, 0, ECX, 22},
    {"xsave", 1, 0, ECX, 27}, {"avx", 1, 0, ECX, 28}, {"f16c", 1, 0, ECX, 29}, {"bmi1", 7, 0, EBX, 3},
    {"avx2", 7, 0, EBX, 5}, {"bmi2", 7, 0, EBX, 8}, {"lahf_lm", 0x80000001, 0, ECX, 0}, {"abm", 0x80000001, 0, ECX, 5},
    {"avx512f", 7, 0, EBX, 16}, {"avx512dq", 7, 0, EBX, 17}, {"avx512cd", 7, 0, EBX, 28}, {"avx512bw", 7, 0, EBX, 30},
    {"avx512vl", 7, 0, EBX, 31}, {"pclmulqdq", 1, 0, ECX, 1}, {"aes", 1, 0, ECX, 25}, {"rtm", 7, 0, EBX, 11},
    {"adx", 7, 0, EBX, 19}, {"clflushopt", 7, 0, EBX, 23}, {"clwb", 7, 0, EBX, 24}, {"sha_ni", 7, 0, EBX, 29},
    {"pku", 7, 0, ECX, 3}, {"waitpkg", 7, 0, ECX, 5}, {"gfni", 7, 0, ECX, 8}, {"vaes", 7, 0, ECX, 9},
    {"vpclmulqdq", 7, 0, ECX, 10}, {"amx_tile", 7, 0, EDX, 24}, {"serialize", 7, 0, EDX, 14},
    {"sse4a", 0x80000001, 0, ECX, 6}, {"mmxext", 0x80000001, 0, EDX, 22}, {"clzero", 0x80000008, 0, EBX, 0},
    {"fsgsbase", 7, 0, EBX, 0}, {"erms", 7, 0, EBX, 9}, {"rdtscp", 0x80000001, 0, EDX, 27},
};

static uint32_t ask(uint32_t leaf, uint32_t subleaf, int reg) {
    uint32_t answer[4];
    __cpuid_count(leaf, subleaf, answer[0], answer[1], answer[2], answer[3]);
    return answer[reg];
}

static uint64_t xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void check(const char *what, int right) {
    printf("%s %s\n", right ? "right" : "WRONG", what);
}

// The state that a program without more than these components needs; `cpuid` says it where it knows XSAVE.
static uint32_t state_size;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uint8_t *state = (uint8_t *)((ucontext_t *)context)->uc_mcontext.fpregs;
    uint32_t magic, extended, size, last;
    uint64_t components;
    memcpy(&magic, state + 464, 4);
    memcpy(&extended, state + 468, 4);
    memcpy(&components, state + 472, 8);
    memcpy(&size, state + 480, 4);
    memcpy(&last, state + size, 4);
    check("FP_XSTATE_MAGIC1", magic == 0x46505853);
    check("FP_XSTATE_MAGIC2", last == 0x46505845 && extended == size + 4);
    check("size of the frame's state", size == state_size);
    check("components of the frame's state", components == xcr0());
}

static void overwriting_handler(int signal) {
    (void)signal;
    __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm7", "xmm15");
}

static int machine_has(const char *name) {
    char line[16384], *found = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !found && fgets(line, sizeof line, file)) found = strncmp(line, "flags", 5) ? NULL : line;
    if (file) fclose(file);
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    if (found) found[strcspn(found, "\n")] = ' ';
    return found && strstr(found, word);
}

static uint8_t wide[64] __attribute__((aligned(64))), after[64] __attribute__((aligned(64)));

// Register 7 as wide as the machine has it, whatever the program is shown.
static void load_wide(int width) {
    if (width == 64) __asm__ volatile(".byte 0x62,0xf1,0xfd,0x48,0x6f,0x38" :: "a"(wide)); // vmovdqa64 zmm7, [rax]
    else __asm__ volatile("vmovdqa (%0), %%ymm7" :: "r"(wide));
}

static void store_wide(int width) {
    if (width == 64) __asm__ volatile(".byte 0x62,0xf1,0xfd,0x48,0x7f,0x38" :: "a"(after) : "memory"); // vmovdqa64 [rax], zmm7
    else __asm__ volatile("vmovdqa %%ymm7, (%0)" :: "r"(after) : "memory");
}

#define SAVE(instruction)                                                                                              \
    do {                                                                                                               \
        memset(area, 0x5a, sizeof area);                                                                               \
        memset(area + 512, 0, 64);                                                                                     \
        uint64_t a = 0xffffffee, d = 0xffffffff;                                                                       \
        uint8_t carry;                                                                                                 \
        __asm__ volatile("stc\n" instruction " (%3)\nsetc %2"                                                          \
                         : "+a"(a), "+d"(d), "=&q"(carry) : "r"(area) : "memory", "cc");                               \
        check(instruction " keeps to its area", area[state_size] == 0x5a && area[sizeof area - 1] == 0x5a);            \
        check(instruction " keeps registers", a == 0xffffffee && d == 0xffffffff && carry);                            \
        uint64_t saved;                                                                                                \
        memcpy(&saved, area + 512, 8);                                                                                 \
        check(instruction " saves no more than XCR0 has", (saved & ~xcr0()) == 0);                                     \
    } while (0)

static void save_and_restore(void) {
    static uint8_t area[16384] __attribute__((aligned(64)));
    SAVE("xsave");
    if (machine_has("xsavec")) SAVE("xsavec");
    memcpy(area + 160 + 16 * 6, wide, 16); // xmm6
    uint8_t read[16];
    __asm__ volatile("xrstor (%2)\nmovdqu %%xmm6, %3" :: "a"(0xffffffee), "d"(0xffffffff), "r"(area), "m"(read) : "memory", "xmm6", "xmm7");
    check("xrstor", memcmp(read, wide, 16) == 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        int has = ask(features[i].leaf, features[i].subleaf, features[i].reg) >> features[i].bit & 1;
        printf("%s %d\n", features[i].name, has);
    }
    state_size = ask(1, 0, ECX) >> 27 & 1 ? ask(13, 0, EBX) : 576;
    printf("xcr0 %llx\nstate %u\nlargest state %u\n", (unsigned long long)xcr0(), state_size, ask(13, 0, ECX));
    printf("hwcap %lx %lx\nminsigstksz %ld\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2), getauxval(AT_MINSIGSTKSZ));
    for (int i = 0; i < 64; i++) wide[i] = i + 1;

    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    action = (struct sigaction){.sa_handler = overwriting_handler};
    sigaction(SIGUSR2, &action, NULL);
    int width = machine_has("avx512f") ? 64 : 32;
    pid_t self = getpid();
    load_wide(width);
    long killed;
    __asm__ volatile("syscall" : "=a"(killed) : "a"(62), "D"(self), "S"(SIGUSR2) : "rcx", "r11", "memory");
    store_wide(width);
    check("what is in use lives on behind a handler", killed == 0 && memcmp(wide, after, width) == 0);
    load_wide(width);
    save_and_restore();
    return 0;
}
