// Packs blocks of generated text for about a second. The name of one block is too long for its place; what lies behind it
// is used at the end.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16, HASHES = 1 << 14 };

struct summary {
    unsigned long *counts;
    unsigned long blocks;
};

static uint8_t text[BLOCK], packed[2 * BLOCK];
static uint32_t seen[HASHES];

static void generate(unsigned seed) {
    for (int i = 0; i < BLOCK; i++) {
        seed = seed * 1103515245 + 12345;
        text[i] = "etaoin shrdlu cmfwyp"[seed >> 16 & 15] + (seed >> 28 == 0);
    }
}

static uint32_t hash(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word * 2654435761u >> 18;
}

static size_t pack(void) {
    size_t length = 0;
    int at = 0;
    while (at < BLOCK - 8) {
        uint32_t slot = hash(text + at), before = seen[slot];
        seen[slot] = at;
        int match = 0;
        if (before < (uint32_t)at)
            while (at + match < BLOCK && match < 255 && text[before + match] == text[at + match])
                match++;
        if (match >= 4) {
            packed[length++] = 0xff;
            packed[length++] = (uint8_t)match;
            packed[length++] = (uint8_t)(at - before);
            packed[length++] = (uint8_t)((at - before) >> 8);
            at += match;
        } else {
            packed[length++] = text[at++];
        }
    }
    return length;
}

static void rename_block(char *name, const char *to) {
    strcpy(name, to); /* guilty */
}

__attribute__((noinline)) static struct summary *begin(void) {
    struct summary *summary = malloc(sizeof *summary);
    summary->counts = calloc(256, sizeof *summary->counts);
    return summary;
}

__attribute__((noinline)) static void finish(struct summary *summary, size_t total) {
    summary->counts[total % 256]++; /* crash */
    printf("%zu %lu\n", total, summary->counts[total % 256]);
}

int main(int argc, char **argv) {
    int rounds = atoi(argv[1]), bad = atoi(argv[2]);
    char *name = malloc(24);
    struct summary *summary = begin();
    size_t total = 0;
    for (int round = 0; round < rounds; round++) {
        generate(round);
        rename_block(name, round == bad ? "a-block-whose-name-goes-beyond-its-own-place" : "block");
        total += pack();
    }
    (void)argc;
    finish(summary, total);
}
