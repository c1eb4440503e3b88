// tar 1.13.25: an incremental archive notes each member's directory; one that is not in the table becomes NULL, and is used
// when all members have been scanned.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define DIRECTORIES 32
#define MEMBERS 32
#define BLOCKS 3
#define BLOCK_SIZE 512

struct directory {
    char name[64];
    long device;
    int n_members;
};

struct member {
    char name[128];
    struct directory *directory;
    unsigned sum;
};

static struct directory *directories[DIRECTORIES];
static int n_directories;
static struct member *members[MEMBERS];
static int n_members;

static void note_directory(const char *name)
{
    struct directory *directory = calloc(1, sizeof *directory);
    snprintf(directory->name, sizeof directory->name, "%s", name);
    directory->device = 8;
    directories[n_directories++] = directory;
}

static int find_directory(const char *name, size_t length)
{
    for (int number = 0; number < n_directories; number++)
        if (strlen(directories[number]->name) == length && memcmp(directories[number]->name, name, length) == 0)
            return number;
    return -1;
}

SEPARATE static void set_directory(struct member *member)
{
    const char *slash = strrchr(member->name, '/');
    int number = slash ? find_directory(member->name, slash - member->name) : -1;
    if (number < 0) {
        member->directory = NULL; /* mark: forget */
        return;
    }
    member->directory = directories[number];
}

static void note_member(const char *name)
{
    struct member *member = calloc(1, sizeof *member);
    snprintf(member->name, sizeof member->name, "%s", name);
    set_directory(member);
    members[n_members++] = member;
}

// Makes and sums the blocks of a member, as its contents are read: long, and without a look at directories.
static unsigned scan_member(const struct member *member)
{
    static unsigned char block[BLOCK_SIZE];
    unsigned sum = 0;
    for (int number = 0; number < BLOCKS; number++) {
        for (int at = 0; at < BLOCK_SIZE; at++)
            block[at] = (unsigned char)(member->name[at % 16] * (number + at));
        for (int at = 0; at < BLOCK_SIZE; at++)
            sum = sum * 31 + block[at];
    }
    return sum;
}

SEPARATE static void dump_member(const struct member *member)
{
    struct directory *directory = member->directory; /* mark: load */
    directory->n_members++;                          /* mark: count */
}

static int dump_members(void)
{
    int n_dumped = 0;
    for (int number = 0; number < n_members; number++) {
#ifdef FIXED
        if (!members[number]->directory) {
            printf("%s: no such directory\n", members[number]->name);
            continue;
        }
#endif
        dump_member(members[number]);
        n_dumped++;
    }
    return n_dumped;
}

static void read_directories(void)
{
    char line[1024];
    if (!fgets(line, sizeof line, stdin))
        exit(2);
    for (char *name = strtok(line, " \n"); name && n_directories < DIRECTORIES; name = strtok(NULL, " \n"))
        note_directory(name);
}

int main(void)
{
    char line[1024];
    unsigned sum = 0;
    read_directories();
    while (n_members < MEMBERS && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        note_member(line);
    }
    for (int number = 0; number < n_members; number++) {
        members[number]->sum = scan_member(members[number]);
        sum ^= members[number]->sum;
    }
    int n_dumped = dump_members();
    printf("%d members, %d dumped, sum %04x\n", n_members, n_dumped, sum);
    return 0;
}
