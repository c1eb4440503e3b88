// man 1.5h1: the colon-separated list of sections is split into a table of fixed size by a loop that looks for the end of the list
// only. The pointer behind the table is used much later, when a page has been looked up and its name is put together.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define SECTIONS 12
#define INDEX_SIZE 4096
#define ROUNDS 256

struct search {
    char **directories;
    const char *page;
};

struct lookup {
    struct search search;
    const char *section;
    unsigned hash;
};

struct candidate {
    char **directories;
    char name[256];
};

char *section_list[SECTIONS];
char **man_path; // the directories to look in; it lies right behind the table
int n_sections;
unsigned page_index[INDEX_SIZE];

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    if (!copy)
        exit(2);
    return strcpy(copy, text);
}

static void set_man_path(void)
{
    man_path = calloc(3, sizeof *man_path);
    man_path[0] = copy_of("/usr/share/man");
    man_path[1] = copy_of("/usr/local/man");
}

SEPARATE static void split_sections(char *list)
{
    n_sections = 0;
    char *part = strtok(list, ":");
#ifdef FIXED
    while (part && n_sections < SECTIONS) {
#else
    while (part) { /* mark: bound */
#endif
        char *section = copy_of(part);
        section_list[n_sections] = section; /* mark: store-section */
        n_sections++;
        part = strtok(NULL, ":");
    }
}

static unsigned hash_of(const char *text)
{
    unsigned hash = 5381;
    for (; *text; text++)
        hash = hash * 33 + (unsigned char)*text;
    return hash;
}

// Reads the index of all pages: long, and without a look at what was corrupted.
static int read_index(void)
{
    unsigned state = 1;
    int n_pages = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int page = 0; page < INDEX_SIZE; page++) {
            state = state * 1664525u + 1013904223u;
            page_index[page] += state;
        }
    for (int page = 0; page < INDEX_SIZE; page++)
        n_pages += (page_index[page] >> 16) % 40 == 7;
    return n_pages;
}

SEPARATE static void start_search(struct search *search, const char *page)
{
    char **directories = man_path;     /* mark: read-path */
    search->directories = directories; /* mark: to-search */
    search->page = page;
}

SEPARATE static void fill_lookup(struct lookup *lookup, const struct search *search)
{
    lookup->search.directories = search->directories; /* mark: to-lookup */
    lookup->search.page = search->page;
    lookup->section = section_list[0];
    lookup->hash = hash_of(search->page);
}

SEPARATE static void name_page(struct candidate *candidate, const struct lookup *lookup)
{
    candidate->directories = lookup->search.directories; /* mark: to-candidate */
    const char *directory = candidate->directories[0];   /* mark: directory */
    size_t length = strlen(directory);                   /* mark: build */
    memcpy(candidate->name, directory, length);
    snprintf(candidate->name + length, sizeof candidate->name - length, "/man%s/%s.%s", lookup->section, lookup->search.page,
             lookup->section);
}

int main(int argc, char **argv)
{
    struct search search;
    struct lookup lookup;
    struct candidate candidate;
    if (argc != 3)
        return 2;
    set_man_path();
    split_sections(argv[1]);
    start_search(&search, argv[2]);
    int n_pages = read_index();
    fill_lookup(&lookup, &search);
    name_page(&candidate, &lookup);
    printf("%s of %d sections, %d pages\n", candidate.name, n_sections, n_pages);
    return 0;
}
