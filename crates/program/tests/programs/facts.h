// How a test program states what is true of its variables: one line of the file `facts` each, to be compared with what
// debug information says at the moment of the failure. For C and C++.
#include "evidence.h"
#include <asm/prctl.h>
#include <sys/syscall.h>

static int facts;

// An expression with its address and size.
#define PLACE(expression) \
    dprintf(facts, "place|%s|%lu|%lu\n", #expression, (unsigned long)&(expression), (unsigned long)sizeof(expression))
// An expression without an address that can be taken, or whose address must not be: the text of its value.
#define VALUE(expression, text) dprintf(facts, "value|%s|%s|\n", #expression, text)

static void state_facts_in(const char *into) {
    unsigned long thread_pointer = 0;
    leave_evidence_in(into);
    facts = create("facts");
    if (syscall(SYS_arch_prctl, ARCH_GET_FS, &thread_pointer)) _exit(96);
    dprintf(facts, "thread|fs|%lu|\n", thread_pointer);
}
