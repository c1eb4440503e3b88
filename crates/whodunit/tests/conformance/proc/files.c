// Ordinary file work: create, write, seek, read, rename, link, list, stat, lock, truncate, directories, errors.
//@ cc: -O1
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void) {
    char text[64] = "", where[4096];
    int file = open("file", O_CREAT | O_RDWR | O_EXCL, 0640);
    MUST(file >= 0);
    CHECK("exclusive", open("file", O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
    CHECK("write", write(file, "hello, world\n", 13) == 13);
    CHECK("seek", lseek(file, 7, SEEK_SET) == 7 && read(file, text, 5) == 5 && !strcmp(text, "world"));
    CHECK("hole", lseek(file, 100000, SEEK_SET) == 100000 && write(file, "end", 3) == 3);
    struct stat status;
    fstat(file, &status);
    printf("size %ld, mode %o, links %lu\n", (long)status.st_size, status.st_mode & 07777, (unsigned long)status.st_nlink);
    CHECK("truncate", ftruncate(file, 5) == 0 && pread(file, text, 63, 0) == 5);
    struct iovec parts[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    CHECK("gathered", pwritev(file, parts, 3, 0) == 13);
    CHECK("link and rename", link("file", "other") == 0 && rename("other", "renamed") == 0 && access("other", F_OK) == -1 && errno == ENOENT);
    CHECK("symlink", symlink("renamed", "pointer") == 0 && readlink("pointer", text, 63) == 7 && lstat("pointer", &status) == 0 && S_ISLNK(status.st_mode));
    CHECK("directory", mkdir("directory", 0755) == 0 && chdir("directory") == 0);
    CHECK("where", getcwd(where, sizeof where) && !strcmp(strrchr(where, '/'), "/directory"));
    CHECK("back", chdir("..") == 0 && rmdir("directory") == 0 && chdir("directory") == -1 && errno == ENOENT);
    struct dirent **entries;
    int n = scandir(".", &entries, NULL, by_name);
    for (int i = 0; i < n; i++) printf("entry %s type %d\n", entries[i]->d_name, entries[i]->d_type);
    int again = open("file", O_RDWR);
    CHECK("lock", flock(file, LOCK_EX) == 0 && flock(again, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK && flock(file, LOCK_UN) == 0);
    int target = open("target", O_CREAT | O_RDWR | O_APPEND, 0600), source = open("file", O_RDONLY);
    CHECK("sendfile", ({ int plain = open("plain", O_CREAT | O_RDWR, 0600); sendfile(plain, source, NULL, 100) == 13; }));
    CHECK("append", write(target, "ab", 2) == 2 && lseek(target, 0, SEEK_SET) == 0 && write(target, "cd", 2) == 2 && lseek(target, 0, SEEK_END) == 4);
    CHECK("times", futimens(target, (struct timespec[2]){{1000, 5}, {2000, 7}}) == 0 && fstat(target, &status) == 0 && status.st_mtim.tv_sec == 2000 && status.st_mtim.tv_nsec == 7);
    CHECK("not a directory", open("file/below", O_RDONLY) == -1 && errno == ENOTDIR);
    CHECK("is a directory", open(".", O_WRONLY) == -1 && errno == EISDIR);
    CHECK("flags", (fcntl(target, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_RDWR | O_APPEND) && fcntl(target, F_GETFD) == 0 && fcntl(target, F_SETFD, FD_CLOEXEC) == 0 && fcntl(target, F_GETFD) == FD_CLOEXEC);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    CHECK("relative to a folder", openat(folder, "file", O_RDONLY) >= 0 && fstatat(folder, "pointer", &status, AT_SYMLINK_NOFOLLOW) == 0 && unlinkat(folder, "pointer", 0) == 0);
    FILE *stream = fopen("stream", "w+");
    for (int i = 0; i < 5000; i++) fprintf(stream, "%d\n", i);
    rewind(stream);
    long sum = 0, value;
    while (fscanf(stream, "%ld", &value) == 1) sum += value;
    printf("stream %ld\n", sum);
    fclose(stream);
    CHECK("temporary", ({ char name[] = "tempXXXXXX"; int t = mkstemp(name); t >= 0 && unlink(name) == 0; }));
    return 0;
}
