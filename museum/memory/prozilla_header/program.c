// prozilla 1.3.5.1: sprintf puts a request for a header together in a buffer on the stack. A long address overruns a pointer that is used
// before the function returns, its return address, and the return address of its caller.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define REQUEST_LENGTH 512

// Bigger than the buffer, so compilers put it behind the buffer; the pointer is the first of it that an overrun reaches.
struct exchange {
    const char *agent;
    int n_sent, n_received;
    char answer[600];
};

struct address {
    const char *host;
    const char *path;
};

struct information {
    int status;
    long size;
    unsigned sum;
};

// Stands for the network: the answer depends on the request alone.
SEPARATE static void send_request(struct exchange *exchange, const char *request, const char *agent)
{
    unsigned sum = 7;
    for (const char *at = request; *at; at++)
        sum = sum * 31 + (unsigned char)*at;
    exchange->n_sent = strlen(request);
    exchange->n_received = snprintf(exchange->answer, sizeof exchange->answer, "200 %u %zu", sum % 100000, strlen(agent));
}

SEPARATE static int fetch_header(const struct address *address, struct information *information)
{
    struct exchange exchange = {.agent = "Prozilla"};
    char request[REQUEST_LENGTH];
#ifdef FIXED
    if (strlen(address->path) + strlen(address->host) + 64 > sizeof request) {
        puts("address too long");
        return 0;
    }
#endif
    exchange.n_received = exchange.n_sent = 0;
    sprintf(request, "HEAD %s HTTP/1.0\r\nHost: %s\r\n\r\n", address->path, address->host); /* mark: print */
    const char *agent = exchange.agent;
    if (strlen(agent) > 40) /* mark: agent */
        return 0;
    send_request(&exchange, request, agent);
    return sscanf(exchange.answer, "%d %ld", &information->status, &information->size) == 2;
} /* mark: return */

SEPARATE static int query_information(const struct address *address, struct information *information)
{
    char words[2][96];
    int answered = fetch_header(address, information);
    snprintf(words[0], sizeof words[0], "%.90s", address->host);
    snprintf(words[1], sizeof words[1], "%.90s", address->path);
    for (int at = 0; words[0][at]; at++)
        information->sum = information->sum * 33 + words[0][at] + words[1][0];
    return answered;
} /* mark: return-of-caller */

static int parse_address(char *text, struct address *address)
{
    static char host[256];
    if (strncmp(text, "http://", 7) != 0 || !strchr(text + 7, '/'))
        return 0;
    address->path = strchr(text + 7, '/');
    snprintf(host, sizeof host, "%.*s", (int)(address->path - text - 7), text + 7);
    address->host = host;
    return 1;
}

int main(int argc, char **argv)
{
    static struct address address;
    static struct information information;
    if (argc != 2 || !parse_address(argv[1], &address))
        return 2;
    if (query_information(&address, &information))
        printf("status %d, %ld bytes, sum %u\n", information.status, information.size, information.sum);
    else
        puts("no information");
    return 0;
}
