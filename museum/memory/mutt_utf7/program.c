// mutt 1.4.2.1: a folder's name is converted to UTF-7 in a buffer of one and a half times its length, which names of alternating
// alphabets exceed. Behind the buffer lies the account, whose pointers are copied on before they are used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";

struct account {
    unsigned flags;
    unsigned port;
    const char *host;
    const char *user;
};

struct connection {
    const char *host;
    const char *user;
    int sequence;
};

struct request {
    const char *host;
    const char *user;
    char text[512];
};

static size_t buffer_size(const char *name)
{
#ifdef FIXED
    return strlen(name) * 8 + 1;
#else
    return strlen(name) + strlen(name) / 2 + 1; /* mark: size */
#endif
}

SEPARATE static int is_printable(char *scratch, const char *name)
{
    int n_control = 0;
    for (strcpy(scratch, name); *scratch; scratch++)
        n_control += *scratch > 0 && *scratch < ' ';
    return n_control == 0;
}

// Checks the name in a block of the size that the conversion asks for, too: the buffer will be that block, before the account.
static int is_acceptable(const char *name, struct account **account)
{
    char *scratch = malloc(buffer_size(name));
    *account = malloc(sizeof **account);
    int acceptable = is_printable(scratch, name);
    free(scratch);
    return acceptable;
}

static unsigned next_character(const char **name)
{
    unsigned char first = *(*name)++;
    if (first < 0xc0)
        return first;
    unsigned char second = *(*name)++;
    return (first & 0x1f) << 6 | (second & 0x3f);
}

static void put(char **to, char character)
{
    *(*to)++ = character; /* mark: store */
}

SEPARATE static char *utf8_to_utf7(const char *name)
{
    char *buffer = malloc(buffer_size(name));
    char *to = buffer;
    while (*name) {
        unsigned character = next_character(&name);
        if (character < 0x80) {
            put(&to, character);
            continue;
        }
        put(&to, '&');
        put(&to, alphabet[character >> 10 & 63]);
        put(&to, alphabet[character >> 4 & 63]);
        put(&to, alphabet[character << 2 & 63]);
        put(&to, '-');
    }
    put(&to, 0);
    return buffer;
}

SEPARATE static void connect_to(struct connection *connection, const struct account *account)
{
    connection->host = account->host; /* mark: to-connection */
    connection->user = account->user;
    connection->sequence = 1;
}

SEPARATE static void prepare(struct request *request, const struct connection *connection)
{
    request->host = connection->host; /* mark: to-request */
    request->user = connection->user;
}

SEPARATE static void send_select(struct request *request, int sequence, const char *folder)
{
    size_t length = strlen(request->host); /* mark: measure-host */
    snprintf(request->text, sizeof request->text, "a%d SELECT %.*s/%.18s", sequence, (int)length, request->host, folder);
    puts(request->text);
}

SEPARATE static void send_login(struct request *request, int sequence, const char *folder)
{
    size_t length = strlen(request->user); /* mark: measure-user */
    snprintf(request->text, sizeof request->text, "a%d LOGIN %.*s, folder of %zu bytes", sequence, (int)length, request->user,
             strlen(folder));
    puts(request->text);
}

int main(int argc, char **argv)
{
    struct account *account;
    struct connection connection;
    struct request request;
    if (argc != 2 || !is_acceptable(argv[1], &account))
        return 2;
    account->flags = 1;
    account->port = 143;
    account->host = "imap.example.org";
    account->user = "joe";
    char *folder = utf8_to_utf7(argv[1]);
    connect_to(&connection, account);
    prepare(&request, &connection);
    send_select(&request, connection.sequence++, folder);
    send_login(&request, connection.sequence++, folder);
    return 0;
}
