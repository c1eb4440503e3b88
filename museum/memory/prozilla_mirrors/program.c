// prozilla 1.3.5.1: a list of mirrors is parsed; strncpy is told the length of the source, and overruns the buffer for a server's name.
// The function that holds the buffer fails when it returns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define SERVER_LENGTH 256
#define MIRRORS 16
#define PROBES 400

struct mirror {
    char server[SERVER_LENGTH];
    char path[64];
    int speed;
};

static struct mirror mirrors[MIRRORS];
static int n_mirrors;

// Asks a server several times how fast it answers; here the answer comes from its name.
SEPARATE static int probe(const char *server, int claimed_speed)
{
    unsigned state = 17;
    int n_answers = 0;
    for (int number = 0; number < PROBES; number++) {
        state = state * 1103515245u + 12345u + (unsigned char)server[number % 8];
        n_answers += (state >> 16) % 7 < 5;
    }
    return n_answers / 100 + claimed_speed;
}

SEPARATE static void add_mirror(const char *server, const char *path, int speed)
{
    struct mirror *mirror = &mirrors[n_mirrors++ % MIRRORS];
    snprintf(mirror->server, sizeof mirror->server, "%s", server);
    snprintf(mirror->path, sizeof mirror->path, "%s", path);
    mirror->speed = speed;
}

// `mirror SERVER/PATH SPEED`
SEPARATE static void parse_mirror(const char *line)
{
    char server[SERVER_LENGTH];
    const char *name = line + strlen("mirror ");
    const char *slash = strchr(name, '/');
    if (strncmp(line, "mirror ", strlen("mirror ")) != 0 || !slash)
        return;
#ifdef FIXED
    if (slash - name >= (long)sizeof server) {
        puts("server name too long");
        return;
    }
#endif
    memset(server, 0, sizeof server);
    strncpy(server, name, slash - name); /* mark: copy */
    int speed = probe(server, atoi(strrchr(line, ' ')));
    add_mirror(server, strchr(line, '/'), speed);
} /* mark: return */

static const struct mirror *best_mirror(void)
{
    const struct mirror *best = &mirrors[0];
    for (int number = 1; number < n_mirrors && number < MIRRORS; number++)
        if (mirrors[number].speed > best->speed)
            best = &mirrors[number];
    return best;
}

int main(int argc, char **argv)
{
    static char line[4096];
    FILE *list = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!list)
        return 2;
    while (fgets(line, sizeof line, list))
        parse_mirror(line);
    fclose(list);
    printf("%d mirrors, best %s\n", n_mirrors, best_mirror()->server);
    return 0;
}
