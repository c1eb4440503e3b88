// The cells of a table are filled beyond their number, over the pointer to their limits.
#include <stdio.h>
#include <stdlib.h>

struct limits {
    int cells[8];
};

static int *cells;
static struct limits **limits;

__attribute__((noinline)) static void fill(int n_cells)
{
    for (int cell = 0; cell < n_cells; cell++)
        cells[cell] = cell * 3; /* guilty */
}

__attribute__((noinline)) static int sum(void)
{
    int sum = 0;
    for (int cell = 0; cell < 8; cell++)
        if (cells[cell] > (*limits)->cells[cell]) /* crash */
            sum += cells[cell];
    return sum;
}

int main(int argc, char **argv)
{
    cells = malloc(8 * sizeof *cells);
    limits = malloc(sizeof *limits);
    *limits = calloc(1, sizeof **limits);
    fill(argc > 1 ? atoi(argv[1]) : 8);
    printf("sum %d\n", sum());
    return 0;
}
