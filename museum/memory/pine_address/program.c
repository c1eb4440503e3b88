// pine 4.44: the size of a From line is estimated without the backslashes that quotation marks in a name will need. The number goes
// through several functions to the allocation; the block goes to the function that overruns it, back up, and is freed in the end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define MESSAGES 16

struct address {
    char *personal;
    char *mailbox;
    struct address *next;
};

struct index_line {
    char *from;
    size_t length;
    unsigned hash;
    char subject[512];
};

static struct index_line *message_index[MESSAGES];
static int n_messages;

SEPARATE static void *fs_get(size_t size)
{
    void *block = malloc(size);
    if (!block)
        exit(2);
    return block;
}

SEPARATE static void fs_give(void **block)
{
    free(*block); /* mark: release */
    *block = NULL;
}

static int needs_quote(char character)
{
    return character == '"' || character == '\\';
}

SEPARATE static size_t estimate_size(const struct address *address)
{
    size_t size = 0;
    for (; address; address = address->next) {
#ifdef FIXED
        for (const char *at = address->personal; *at; at++)
            size += needs_quote(*at);
#endif
        size += strlen(address->personal) + strlen(address->mailbox); /* mark: estimate */
    }
    return size;
}

static size_t line_size(const struct address *address)
{
    size_t estimated = estimate_size(address);
    return estimated + strlen(" <>");
}

static char *append_quoted(char *to, const char *text)
{
    for (; *text; text++) {
        if (needs_quote(*text))
            *to++ = '\\';
        *to++ = *text; /* mark: append */
    }
    *to = 0; /* mark: terminate */
    return to;
}

SEPARATE static void write_address(char *buffer, const struct address *address)
{
    char *end = buffer;
    for (; address; address = address->next) {
        end = append_quoted(end, address->personal);
        end = append_quoted(end, " <");
        end = append_quoted(end, address->mailbox);
        end = append_quoted(end, ">");
    }
}

static char *address_string(const struct address *address, size_t size, struct index_line **line)
{
    char *buffer = fs_get(size + 1); /* mark: allocate */
    *line = fs_get(sizeof **line);
    write_address(buffer, address);
    return buffer;
}

static void index_message(const struct address *address)
{
    struct index_line *line;
    size_t size = line_size(address);
    char *from = address_string(address, size, &line);
    line->from = from; /* mark: to-index */
    line->length = strlen(from);
    line->hash = 0;
    strcpy(line->subject, "(none)");
    for (const char *at = from; *at; at++)
        line->hash = line->hash * 31 + *at;
    message_index[n_messages++] = line;
}

// `Name of the person <mailbox>`; nothing if the line is no address.
static struct address *parse_address(char *text)
{
    char *mailbox = strstr(text, " <"), *end = strrchr(text, '>');
    if (!mailbox || !end || end < mailbox)
        return NULL;
    *mailbox = *end = 0;
    struct address *address = fs_get(sizeof *address);
    address->personal = text;
    address->mailbox = mailbox + 2;
    address->next = NULL;
    return address;
}

static unsigned sort_index(void)
{
    unsigned order = 0;
    for (int round = 0; round < 4000; round++)
        for (int message = 0; message < n_messages; message++)
            order = order * 17 + message_index[message]->hash;
    return order;
}

int main(void)
{
    static char line[8192];
    size_t total = 0;
    while (n_messages < MESSAGES && fgets(line, sizeof line, stdin)) {
        struct address *address = parse_address(line);
        if (address)
            index_message(address);
    }
    unsigned order = sort_index();
    for (int message = 0; message < n_messages; message++) {
        printf("From: %zu characters\n", message_index[message]->length);
        total += message_index[message]->length + (order == 1);
        fs_give((void **)&message_index[message]->from);
    }
    printf("%d messages, index %zu\n", n_messages, total);
    return 0;
}
