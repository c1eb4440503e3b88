// cvs 1.11.4: the server frees the name of the current directory when it is told another one. If that is not acceptable it returns, and
// keeps the pointer to what it has freed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define ENTRIES 32

struct entry {
    char name[40];
    unsigned sum;
};

static char *root;
static char *directory_name;
static struct entry *entries[ENTRIES];
static int n_entries;

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    if (!copy)
        exit(2);
    return strcpy(copy, text);
}

static int is_outside(const char *name)
{
    size_t length = strlen(name);
    return length == 0 || name[0] == '/' || name[length - 1] == '/' || strstr(name, "..");
}

SEPARATE static void serve_directory(const char *name)
{
    free(directory_name); /* mark: release */
    if (is_outside(name)) {
        printf("refused: %s\n", name);
#ifdef FIXED
        directory_name = NULL;
#endif
        return; /* mark: refuse */
    }
    directory_name = copy_of(name);
}

static unsigned sum_of(const char *text)
{
    unsigned sum = 1;
    for (int round = 0; round < 32; round++)
        for (const char *at = text; *at; at++)
            sum = (sum * 31 + (unsigned char)*at) ^ sum >> 11;
    return sum;
}

static void serve_entry(const char *name)
{
    if (n_entries == ENTRIES)
        return;
    struct entry *entry = malloc(sizeof *entry);
#ifdef FIXED
    if (!directory_name) {
        free(entry);
        return;
    }
#endif
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->sum = sum_of(name);
    entries[n_entries++] = entry;
}

static void serve_root(const char *name)
{
    free(root);
    root = copy_of(name);
}

static void serve(char *request)
{
    static const struct {
        const char *name;
        void (*serve)(const char *);
    } requests[] = {{"Root", serve_root}, {"Directory", serve_directory}, {"Entry", serve_entry}};
    char *argument = strchr(request, ' ');
    if (!argument)
        return;
    *argument++ = 0;
    for (size_t number = 0; number < sizeof requests / sizeof *requests; number++)
        if (strcmp(request, requests[number].name) == 0)
            requests[number].serve(argument);
}

int main(void)
{
    char request[256];
    unsigned sum = 0;
    while (fgets(request, sizeof request, stdin)) {
        request[strcspn(request, "\n")] = 0;
        serve(request);
    }
    for (int number = 0; number < n_entries; number++)
        sum ^= entries[number]->sum;
    printf("%d entries in %s, sum %08x\n", n_entries, directory_name, sum);
    return 0;
}
