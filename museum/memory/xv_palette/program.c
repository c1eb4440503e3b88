// xv 3.10a: the loader of bitmaps believes the number of colours in the header, and fills three palettes on the stack with it.
// The run uses some two hundred global tables, so that there are many neighbours to try.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define PENS 250 // of 256, some belong to the screen
#define TABLE_SIZE 16

#define EIGHT(OF, n) OF(n##0) OF(n##1) OF(n##2) OF(n##3) OF(n##4) OF(n##5) OF(n##6) OF(n##7)
#define SIXTY_FOUR(OF) \
    EIGHT(OF, 0) EIGHT(OF, 1) EIGHT(OF, 2) EIGHT(OF, 3) EIGHT(OF, 4) EIGHT(OF, 5) EIGHT(OF, 6) EIGHT(OF, 7)

// Three tables and a pointer to go through them, sixty-four times.
#define TABLES(n) \
    unsigned char dither_##n[TABLE_SIZE]; \
    short error_##n[TABLE_SIZE]; \
    int histogram_##n[TABLE_SIZE]; \
    int *cursor_##n;
SIXTY_FOUR(TABLES)

#define AIM(n) cursor_##n = histogram_##n;
#define STEP(n) \
    error_##n[dither_##n[colour % TABLE_SIZE] % TABLE_SIZE] += colour; \
    cursor_##n[colour % TABLE_SIZE]++;

enum channel { RED = 1, GREEN = 2, BLUE = 4 };

struct header {
    int width, height;
    int n_colours;
    int channels;
};

struct picture {
    struct header header;
    unsigned char pixels[64 * 64];
    unsigned sum;
};

static void use_tables(int colour)
{
    SIXTY_FOUR(STEP)
}

static int read_header(FILE *file, struct header *header)
{
    int n_read = fscanf(file, "BM %d %d %d %d", &header->width, &header->height, &header->n_colours, &header->channels);
    if (n_read != 4 || fgetc(file) != '\n' || header->width * header->height > 64 * 64)
        return 0;
#ifdef FIXED
    if (header->n_colours > PENS) {
        puts("too many colours");
        exit(1);
    }
#endif
    return 1;
}

SEPARATE static unsigned char next_byte(FILE *file)
{
    int byte = fgetc(file);
    return byte < 0 ? 0 : byte;
}

SEPARATE static void read_palette(FILE *file, const struct header *header, unsigned char *red, unsigned char *green,
                                  unsigned char *blue)
{
    for (int colour = 0; colour < header->n_colours; colour++) { /* mark: bound */
        if (header->channels & BLUE)
            blue[colour] = next_byte(file); /* mark: store-blue */
        if (header->channels & GREEN)
            green[colour] = next_byte(file); /* mark: store-green */
        if (header->channels & RED)
            red[colour] = next_byte(file); /* mark: store-red */
    }
}

static unsigned grey_of(unsigned char red, unsigned char green, unsigned char blue)
{
    return (red * 11 + green * 16 + blue * 5) >> 5;
}

SEPARATE static int load_bitmap(FILE *file, struct picture *picture)
{
    unsigned char red[PENS];
    unsigned char green[PENS];
    unsigned char blue[PENS];
    memset(blue, 0, sizeof blue);
    read_palette(file, &picture->header, red, green, blue);
    for (int pixel = 0; pixel < picture->header.width * picture->header.height; pixel++) {
        int colour = next_byte(file) % PENS;
        picture->pixels[pixel] = grey_of(red[colour], green[colour], blue[colour]);
        picture->sum = picture->sum * 33 + picture->pixels[pixel];
        use_tables(colour);
    }
    return picture->header.n_colours;
} /* mark: return */

int main(int argc, char **argv)
{
    static struct picture picture;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    SIXTY_FOUR(AIM)
    if (!file || !read_header(file, &picture.header))
        return 2;
    int n_colours = load_bitmap(file, &picture);
    fclose(file);
    printf("%dx%d, %d colours, sum %u\n", picture.header.width, picture.header.height, n_colours, picture.sum);
    return 0;
}
