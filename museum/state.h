/* The shared state of a large program. Built with -DPAIRS=N, an exhibit's threads read N variables that main has written, each by
 * instructions of its own, so that a run has N access pairs more. Otherwise this is nothing. */
#ifndef STATE_H
#define STATE_H

#ifndef PAIRS

#define WRITE_STATE() ((void)0)
#define READ_STATE() ((void)0)

#else

static int state[PAIRS];

#define FOR_ALL_STATE(instruction)                                                                                            \
    ".set state_offset, 0\n.rept %c1\n" instruction "\n.set state_offset, state_offset + 4\n.endr"

#define WRITE_STATE()                                                                                                         \
    __asm__ volatile(FOR_ALL_STATE("movl $1, state_offset(%0)") : : "r"(state), "i"(PAIRS) : "memory")
#define READ_STATE()                                                                                                          \
    __asm__ volatile(FOR_ALL_STATE("movl state_offset(%0), %%eax") : : "r"(state), "i"(PAIRS) : "eax", "memory")

#endif

#endif
