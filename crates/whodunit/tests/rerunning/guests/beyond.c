// Gives up after a piece of its file and a line of its input; what it would have done then needs more of both.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static int count_entries(const char *path)
{
    int n_entries = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    while (readdir(folder))
        n_entries++;
    closedir(folder);
    return n_entries;
}

static void ask(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    struct timeval at_once = {0, 0};
    struct rlimit limit;
    struct utsname names;
    struct stat status;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(0, &set);
    char folder[512];
    printf("poll %d, select %d\n", poll(&input, 1, -1), select(1, &set, NULL, NULL, &at_once));
    printf("limits %d, names %d, ", getrlimit(RLIMIT_NOFILE, &limit), uname(&names));
    printf("folder %d, terminal %d\n", getcwd(folder, sizeof folder) != NULL, isatty(0));
    printf("notes %d, ", stat("notes", &status) == 0 ? (int)status.st_size : -1);
    printf("other %d\n", stat("other", &status) == 0);
}

static void rearrange(void)
{
    int renamed = rename("notes", "other");
    int gone = access("notes", F_OK);
    int removed = unlink("other");
    printf("renamed %d, gone %d, removed %d, again %d\n", renamed, gone, removed, unlink("other"));
}

int main(void)
{
    char text[64];
    int notes = open("notes", O_RDONLY), n_read = read(notes, text, 6), n_more, n_input = 0;
    printf("first %.*s\n", n_read, text);
    if (read(0, text, 5) == 5 && memcmp(text, "stop\n", 5) == 0) { /* stops */
        puts("stopped");
        return 0;
    }
    n_more = read(notes, text, sizeof text);
    printf("then %.*s\n", n_more, text);
    while (read(0, text, sizeof text) > 0)
        n_input++;
    printf("input %d, closed %d\n", n_input, close(notes));
    printf("again %zd\n", read(notes, text, 1));
    printf("entries %d\n", count_entries("empty"));
    ask();
    rearrange();
    return 0;
}
