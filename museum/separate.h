/* For what stands in a file of its own in the real program: the compiler neither inlines such a function nor looks into it,
 * as it could not there, so values pass through it in memory and registers at every level of optimisation. */
#ifndef SEPARATE_H
#define SEPARATE_H

#define SEPARATE __attribute__((noipa))

#endif
