// gzip 1.2.4: the name of the input file is copied into a global array of 1024 bytes, whatever its length; what lies behind the
// array is used when the file has been read and packed.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH_LENGTH 1024
#define WINDOW_SIZE 4096
#define MIN_MATCH 3
#define MAX_MATCH 258

char ifname[MAX_PATH_LENGTH];
int save_original_name; // zero unless asked for
int quiet;
long header_bytes;
const char *suffix;
unsigned crc_table[256];
unsigned char window[WINDOW_SIZE];
unsigned char packed[2 * WINDOW_SIZE];

static void make_crc_table(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        crc_table[byte] = crc;
    }
}

static unsigned crc_of(const unsigned char *bytes, size_t length)
{
    unsigned crc = ~0u;
    for (size_t at = 0; at < length; at++)
        crc = crc_table[(crc ^ bytes[at]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static size_t match_length(const unsigned char *bytes, size_t at, size_t length, size_t distance)
{
    size_t same = 0;
    while (at + same < length && same < MAX_MATCH && bytes[at + same] == bytes[at + same - distance])
        same++;
    return same;
}

static size_t pack(const unsigned char *bytes, size_t length, unsigned char *to)
{
    size_t n_packed = 0;
    for (size_t at = 0; at < length;) {
        size_t best = 0, best_distance = 0;
        for (size_t distance = 1; distance <= at && distance < 64; distance++) {
            size_t same = match_length(bytes, at, length, distance);
            if (same > best) {
                best = same;
                best_distance = distance;
            }
        }
        if (best >= MIN_MATCH) {
            to[n_packed++] = 0x80 | best_distance;
            to[n_packed++] = best - MIN_MATCH;
            at += best;
        } else {
            to[n_packed++] = bytes[at++];
        }
    }
    return n_packed;
}

static int take_name(const char *name)
{
#ifdef FIXED
    if (strlen(name) >= sizeof ifname)
        return 0;
#endif
    strcpy(ifname, name); /* mark: copy */
    return 1;
}

static int has_suffix(const char *name)
{
    size_t length = strlen(name), suffix_length = strlen(suffix); /* mark: suffix */
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static void treat_file(void)
{
    FILE *input = fopen(ifname, "rb");
    if (!input) {
        printf("gzip: cannot open %s\n", ifname);
        exit(1);
    }
    size_t length = fread(window, 1, sizeof window, input);
    fclose(input);
    unsigned crc = crc_of(window, length);
    size_t n_packed = pack(window, length, packed);
    if (has_suffix(ifname)) {
        printf("gzip: %s already has the suffix\n", ifname);
        return;
    }
    if (save_original_name)
        header_bytes += strlen(ifname) + 1;
    if (!quiet)
        printf("%zu bytes, %zu packed, crc %08x\n", length, n_packed + header_bytes, crc);
}

int main(int argc, char **argv)
{
    suffix = ".z";
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-S") == 0 && at + 1 < argc)
            suffix = argv[++at];
        else if (strcmp(argv[at], "-N") == 0)
            save_original_name = 1;
        else if (strcmp(argv[at], "-q") == 0)
            quiet = 1;
    }
    make_crc_table();
    if (at >= argc || !take_name(argv[at])) {
        puts("gzip: file name too long");
        return 1;
    }
    treat_file();
    return 0;
}
