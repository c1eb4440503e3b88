// axel 1.0a: the address in a redirection is read by sscanf without a limit into a buffer of 256 bytes on the stack, and goes over
// a pointer that is used next and over the function's return address.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define LOCATION_LENGTH 256

// Bigger than the buffer, so compilers put it behind the buffer; the pointer is the first of it that an overrun reaches.
struct target {
    const char *host;
    int port;
    char header[400];
};

struct connection {
    const char *host;
    int port;
    int n_redirections;
    unsigned n_lines;
};

SEPARATE static int same_host(const char *location, const struct target *target)
{
    size_t length = strlen(target->host); /* mark: host */
    return strncmp(location, target->host, length) == 0;
}

SEPARATE static void note_header(struct target *target, const char *line)
{
    snprintf(target->header, sizeof target->header, "%.100s", line);
    for (char *at = target->header; *at; at++)
        if (*at == '\r')
            *at = ' ';
}

SEPARATE static void follow(struct connection *connection, const char *line)
{
    struct target target = {.host = connection->host, .port = connection->port};
    char location[LOCATION_LENGTH];
    note_header(&target, line);
#ifdef FIXED
    if (sscanf(line, "Location: %255s", location) != 1)
#else
    if (sscanf(line, "Location: %s", location) != 1) /* mark: scan */
#endif
        return;
    if (!same_host(location, &target)) {
        connection->n_redirections++;
        printf("redirected to %zu characters\n", strlen(location));
    }
} /* mark: return */

int main(void)
{
    static char line[4096];
    struct connection connection = {.host = "http://example.org/", .port = 80};
    while (connection.n_redirections < 5 && fgets(line, sizeof line, stdin)) {
        connection.n_lines++;
        follow(&connection, line);
    }
    printf("%u lines\n", connection.n_lines);
    return 0;
}
