// The worked example of execution suppression: one of four lines was copied and not changed, so q2 aims at x in place of y.
#include <stdio.h>
#include <stdlib.h>

#include "separate.h"

#define NUMBERS 64
#define CELLS 1000000
#define FILLED 16

struct entry {
    int field;
};

static int *numbers;
static struct entry **entries; // sparse: most cells are empty
static int *p1, *p2, *q1, *q2;

static int read_number(void)
{
    int number = 0;
    if (scanf("%d", &number) != 1)
        exit(2);
    return number;
}

SEPARATE static void aim(int *x, int *y)
{
    p1 = &x[1];
    p2 = &x[0];
    q1 = &y[1];
#ifdef FIXED
    q2 = &y[0];
#else
    q2 = &x[0]; /* mark: aim-q2 */
#endif
}

SEPARATE static void read_cells(void)
{
    *p1 = read_number();
    *p2 = read_number();
    *q1 = read_number();
    *q2 = read_number(); /* mark: store-q2 */
}

SEPARATE static int use_cells(void)
{
    int a = *p1 + *p2;                 /* mark: add-a */
    int b = *q1 + *q2;                 /* mark: add-b */
    int c = a + b + 1;                 /* mark: add-c */
    numbers[c] = 0;                    /* mark: clear */
    int field = entries[*p2]->field++; /* mark: pick */
    printf("c %d, field %d\n", c, field);
    return field;
}

SEPARATE static void release_cells(void)
{
    free(p2);
    free(q2); /* mark: release-q2 */
}

static void fill_tables(void)
{
    numbers = calloc(NUMBERS, sizeof *numbers);
    entries = calloc(CELLS, sizeof *entries);
    for (int cell = 0; cell < FILLED; cell++) {
        entries[cell] = malloc(sizeof *entries[cell]);
        entries[cell]->field = cell + 5;
    }
}

int main(void)
{
    int *x = malloc(2 * sizeof *x);
    int *y = malloc(2 * sizeof *y);
    fill_tables();
    aim(x, y);
    read_cells();
    use_cells();
    release_cells();
    return 0;
}
