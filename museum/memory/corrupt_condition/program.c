// A label overruns the array that holds it, and what lies behind decides an if in one run, and ends a loop in another. Both structures
// hold statements that do no harm, and one that fails.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define SHAPES 8

char label[16];
long in_colour;
long n_shapes;
const int *palette; // set for coloured drawings only
int *shapes;

SEPARATE static void set_label(const char *text)
{
#ifdef FIXED
    if (strlen(text) >= sizeof label) {
        puts("label too long");
        return;
    }
#endif
    strcpy(label, text); /* mark: copy */
}

SEPARATE static int draw(int *n_drawn)
{
    int colour = 0;
    if (in_colour) { /* mark: decide */
        *n_drawn += 1;
        colour = palette[3]; /* mark: colour */
    } else {
        *n_drawn += 2;
    }
    return colour;
}

SEPARATE static long sum_shapes(void)
{
    long total = 0;
    for (long number = 0; number < n_shapes; number++) /* mark: repeat */
        total += shapes[number];                       /* mark: add */
    return total;
}

int main(void)
{
    char what[16], text[64];
    int n_drawn = 0;
    if (scanf("%15s %63s", what, text) != 2)
        return 2;
    shapes = malloc(SHAPES * sizeof *shapes);
    for (int number = 0; number < SHAPES; number++)
        shapes[number] = number;
    n_shapes = SHAPES;
    set_label(text);
    int colour = strcmp(what, "branch") == 0 ? draw(&n_drawn) : 0;
    long total = sum_shapes();
    if (strcmp(what, "loop") == 0)
        colour = draw(&n_drawn);
    printf("%d of %d drawn, total %ld\n", n_drawn + colour, SHAPES, total);
    return 0;
}
