// rep movs, stos, lods, cmps and scas in every size: forwards, backwards, with zero counts, overlapping, page by page.
//@ cc: -O1
#include "check.h"
#include <sys/mman.h>

struct state { uint64_t rsi, rdi, rcx, rax, flags; };
enum { ZF = 0x40, CF = 1, SHOWN = 0x8d5 };

// Each runs one instruction on *state, with the direction flag set if `backwards`.
#define STRING(name, instruction)                                                                                  \
    static void name(struct state *s, int backwards) {                                                              \
        if (backwards) __asm__ volatile("std" ::: "cc");                                                             \
        __asm__ volatile("cmp %%rax, %%rax\n\t" instruction "\n\tlea -128(%%rsp), %%rsp\n\tpushfq\n\tpopq %4\n\tlea 128(%%rsp), %%rsp\n\tcld" \
                         : "+S"(s->rsi), "+D"(s->rdi), "+c"(s->rcx), "+a"(s->rax), "=r"(s->flags) : : "memory", "cc"); \
    }
STRING(movsb, "rep movsb") STRING(movsw, "rep movsw") STRING(movsl, "rep movsl") STRING(movsq, "rep movsq")
STRING(stosb, "rep stosb") STRING(stosw, "rep stosw") STRING(stosl, "rep stosl") STRING(stosq, "rep stosq")
STRING(lodsb, "rep lodsb") STRING(lodsq, "rep lodsq")
STRING(cmpsb, "repe cmpsb") STRING(cmpsw, "repe cmpsw") STRING(cmpsl, "repe cmpsl") STRING(cmpsq, "repe cmpsq")
STRING(cmpsb_ne, "repne cmpsb") STRING(scasb, "repne scasb") STRING(scasw, "repne scasw") STRING(scasl, "repe scasl") STRING(scasq, "repe scasq")
STRING(movs_one, "movsb\n\tmovsw\n\tmovsl\n\tmovsq") STRING(stos_one, "stosb\n\tstosw\n\tstosl\n\tstosq")
STRING(cmps_one, "cmpsl") STRING(scas_one, "scasw") STRING(movsb_32, "addr32 rep movsb")

static unsigned char *memory; // two pages below 4 GB

static unsigned long checksum(void) {
    unsigned long sum = 5381;
    for (int i = 0; i < 8192; i++)
        sum = sum * 33 + memory[i];
    return sum;
}

static void run(const char *name, void (*instruction)(struct state *, int), int from, int to, unsigned long count) {
    for (int backwards = 0; backwards < 2; backwards++) {
        for (int i = 0; i < 8192; i++)
            memory[i] = i < 4096 ? i / 16 : 4095 - i / 16;
        struct state s = {(uintptr_t)memory + from, (uintptr_t)memory + to, count, 0x1122334455667788, 0};
        instruction(&s, backwards);
        printf("%-10s %s count %lu: rsi %+ld rdi %+ld rcx %lu rax %lx flags %lx memory %lx\n", name, backwards ? "down" : "up", count,
               (long)(s.rsi - (uintptr_t)memory - from), (long)(s.rdi - (uintptr_t)memory - to), s.rcx, s.rax, s.flags & SHOWN, checksum());
    }
}

int main(void) {
    memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    MUST(memory != MAP_FAILED);
#define ALL(name) run(#name, name, 1000, 5000, 37), run(#name, name, 1000, 5000, 0), run(#name, name, 1000, 1001, 100)
    ALL(movsb); ALL(movsw); ALL(movsl); ALL(movsq);
    ALL(stosb); ALL(stosw); ALL(stosl); ALL(stosq);
    ALL(lodsb); ALL(lodsq);
    ALL(cmpsb); ALL(cmpsw); ALL(cmpsl); ALL(cmpsq); ALL(cmpsb_ne);
    ALL(scasb); ALL(scasw); ALL(scasl); ALL(scasq);
    ALL(movs_one); ALL(stos_one); ALL(cmps_one); ALL(scas_one); ALL(movsb_32);
    run("across", movsb, 3000, 4000, 90);
    run("overlap 8", movsq, 3000, 3008, 50);
    run("overlap -3", movsl, 3003, 3000, 50);
    return 0;
}
