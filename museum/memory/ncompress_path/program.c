// ncompress 4.2.4: the path of a file is copied into a buffer on the stack. Behind the buffer lie two descriptors, which are set later,
// the return address, and in the caller's frame the options.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "separate.h"

#define PATH_LENGTH 1000
#define TABLE_SIZE 4096
#define FIRST_CODE 257

struct options {
    long n_files, n_failed;
    long bytes_in[16], codes_out[16];
    const char *suffix;
    const char *directory;
};

struct entry {
    int prefix;
    unsigned char byte;
};

static struct entry table[TABLE_SIZE];

static int find_entry(int n_entries, int prefix, unsigned char byte)
{
    for (int code = FIRST_CODE; code < n_entries; code++)
        if (table[code].prefix == prefix && table[code].byte == byte)
            return code;
    return -1;
}

static long compress(const unsigned char *bytes, long length)
{
    long n_codes = 0;
    int n_entries = FIRST_CODE, prefix = length ? bytes[0] : 0;
    for (long at = 1; at < length; at++) {
        int code = find_entry(n_entries, prefix, bytes[at]);
        if (code >= 0) {
            prefix = code;
            continue;
        }
        n_codes++;
        if (n_entries < TABLE_SIZE)
            table[n_entries++] = (struct entry){prefix, bytes[at]};
        prefix = bytes[at];
    }
    return n_codes + (length > 0);
}

// Opens what is to be read, and what is to be written beside it.
static int open_both(const char *path, int *from, int *to)
{
    *from = open(path, O_RDONLY);
    *to = open("/dev/null", O_WRONLY);
    return *from >= 0 && *to >= 0;
}

static int has_suffix(const char *path, const struct options *options)
{
    size_t length = strlen(path), suffix_length = strlen(options->suffix); /* mark: suffix */
    return length > suffix_length && strcmp(path + length - suffix_length, options->suffix) == 0;
}

SEPARATE static int compress_file(const char *name, struct options *options)
{
    int from;
    int to;
    char path[PATH_LENGTH];
    static unsigned char bytes[65536];
#ifdef FIXED
    if (strlen(name) >= sizeof path) {
        puts("path too long");
        return 1;
    }
#endif
    strcpy(path, name); /* mark: copy */
    if (has_suffix(path, options) || !open_both(path, &from, &to))
        return 1;
    long length = read(from, bytes, sizeof bytes);
    long n_codes = compress(bytes, length);
    if (write(to, bytes, length) != length)
        return 1;
    close(from);
    close(to);
    const char *slash = strrchr(path, '/');
    printf("%.5s: %ld bytes, %ld codes\n", slash ? slash + 1 : path, length, n_codes);
    fflush(stdout);
    options->bytes_in[options->n_files % 16] = length;
    options->codes_out[options->n_files % 16] = n_codes;
    return 0;
} /* mark: return */

int main(int argc, char **argv)
{
    struct options options = {.suffix = ".Z", .directory = "."};
    for (int argument = 1; argument < argc; argument++) {
        options.n_failed += compress_file(argv[argument], &options);
        options.n_files++;
    }
    return options.n_failed > 0;
}
