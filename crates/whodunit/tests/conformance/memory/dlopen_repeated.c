// A library loaded and unloaded a hundred times, two versions of it in turn, so that other code comes to the same address.
//@ lib: -O1
//@ cc: -O1
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#ifdef LIB
static int state = 1;
// The number is changed in the second copy of the file.
int answer(void) { int value; __asm__("mov $0x11223344, %0" : "=r"(value)); return value + state++; }
__attribute__((constructor)) static void loaded(void) { state = 10; }
#else
static char image[1 << 20];
static size_t size;
static void copy(const char *name, int number) {
    static const unsigned char mark[] = {0x44, 0x33, 0x22, 0x11};
    unsigned char *at = memmem(image, size, mark, 4);
    MUST(at);
    memcpy(at, &number, 4);
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    MUST(write(file, image, size) == (ssize_t)size);
    close(file);
    memcpy(at, mark, 4);
}
static int call(const char *name, void **where) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) { printf("FAIL %s\n", dlerror()); exit(1); }
    int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
    *where = (void *)answer;
    int result = answer() + answer();
    MUST(dlclose(library) == 0);
    return result;
}
int main(void) {
    int file = open(LIB_PATH, O_RDONLY);
    size = read(file, image, sizeof image);
    copy("./first.so", 100);
    copy("./second.so", 2000);
    void *where[2] = {NULL, NULL};
    long sum = 0;
    int same_place = 0;
    for (int i = 0; i < 100; i++) {
        sum += call(i & 1 ? "./second.so" : "./first.so", &where[i & 1]);
        same_place += where[0] == where[1];
    }
    printf("sum %ld\n", sum);
    CHECK("both versions lived at one address", same_place > 0);
    CHECK("missing library", dlopen("./none.so", RTLD_NOW) == NULL && dlerror() != NULL);
    CHECK("missing symbol", dlsym(RTLD_DEFAULT, "no_such_symbol_here") == NULL && dlerror() != NULL);
    void *itself = dlopen(NULL, RTLD_NOW);
    CHECK("own handle", itself && dlsym(itself, "puts") != NULL);
    return 0;
}
#endif
