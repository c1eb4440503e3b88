// A table of pointers is kept as one block; the address of a cell is computed with the number of rows where that of columns belongs. The
// cell was never written, so only its address can be to blame.
#include <stdio.h>
#include <stdlib.h>

#include "separate.h"

#define ROWS 4000
#define COLUMNS 32

struct price {
    int value;
};

static struct price **table;
static struct price **cell;

static void fill_table(void)
{
    table = calloc((size_t)ROWS * COLUMNS, sizeof *table);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < COLUMNS; column++) {
            struct price *price = malloc(sizeof *price);
            price->value = 10 + row + 7 * column;
            table[row * COLUMNS + column] = price;
        }
}

SEPARATE static void aim_at(int row, int column)
{
#ifdef FIXED
    cell = &table[row * COLUMNS + column];
#else
    cell = &table[row * ROWS + column]; /* mark: aim */
#endif
}

SEPARATE static int price_there(void)
{
    const struct price *price = *cell; /* mark: load */
    return price->value;               /* mark: follow */
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int row = atoi(argv[1]), column = atoi(argv[2]);
    fill_table();
    aim_at(row, column);
    printf("row %d, column %d: %d\n", row, column, price_there());
    return 0;
}
