// A plug-in that is registered without a help text gets a description with that field unset; what is there is left from a text that was in
// the same memory before.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define PLUGINS 8

struct plugin {
    char name[24];
    int version;
    int flags;
    const char *help;
    long n_calls;
};

static struct plugin *plugins[PLUGINS];
static int n_plugins;

SEPARATE static size_t look_at(const char *text)
{
    char *copy = malloc(sizeof(struct plugin));
    strncpy(copy, text, sizeof(struct plugin));
    size_t n_blanks = 0;
    for (size_t at = 0; at < sizeof(struct plugin) && copy[at]; at++)
        n_blanks += copy[at] == ' ';
    free(copy);
    return n_blanks;
}

SEPARATE static void add_plugin(const char *name, const char *help)
{
    struct plugin *plugin = malloc(sizeof *plugin);
    snprintf(plugin->name, sizeof plugin->name, "%s", name);
    plugin->version = 1;
    plugin->flags = 0;
    plugin->n_calls = 0;
#ifdef FIXED
    plugin->help = NULL;
#endif
    if (help) /* mark: leave */
        plugin->help = strdup(help);
    plugins[n_plugins++] = plugin;
}

SEPARATE static void print_help(const struct plugin *plugin)
{
    const char *help = plugin->help; /* mark: read */
#ifdef FIXED
    if (!help)
        help = "no help";
#endif
    size_t length = strlen(help); /* mark: measure */
    printf("%s: %.*s\n", plugin->name, (int)length, help);
}

int main(void)
{
    static char line[256];
    char name[24], help[64];
    while (n_plugins < PLUGINS && fgets(line, sizeof line, stdin)) {
        int n_read = sscanf(line, "plugin %23s %63[^\n]", name, help);
        if (n_read >= 1)
            add_plugin(name, n_read == 2 ? help : NULL);
        else
            for (int time = 0; time < 2; time++)
                look_at(line);
    }
    for (int number = 0; number < n_plugins; number++)
        print_help(plugins[number]);
    printf("%d plug-ins\n", n_plugins);
    return 0;
}
