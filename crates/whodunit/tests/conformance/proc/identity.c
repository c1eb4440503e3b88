// What /proc/self says of the program: its file, its mappings, its name, its threads, its status; nobody else shows.
//@ cc: -O1 -pthread
#include "check.h"
#include <libgen.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/auxv.h>

static sem_t ready, done;
static void *waits(void *unused) { (void)unused; sem_post(&ready); sem_wait(&done); return NULL; }
static int status_field(const char *name) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    int value = -1;
    while (fgets(line, sizeof line, file)) if (!strncmp(line, name, strlen(name))) value = atoi(line + strlen(name));
    fclose(file);
    return value;
}

int main(int argc, char **argv) {
    (void)argc;
    char self[4096] = "", line[8192];
    MUST(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    CHECK("exe is the program", strcmp(self, argv[0]) == 0);
    char by_pid[64], other[4096] = "";
    snprintf(by_pid, sizeof by_pid, "/proc/%d/exe", getpid());
    CHECK("by process id too", readlink(by_pid, other, sizeof other - 1) > 0 && !strcmp(self, other));
    other[0] = 0;
    CHECK("by thread too", readlink("/proc/thread-self/exe", other, sizeof other - 1) > 0 && !strcmp(self, other));

    FILE *maps = fopen("/proc/self/maps", "r");
    int program = 0, code_line = 0, stack = 0, heap = 0, libc = 0, foreign = 0, unsorted = 0;
    unsigned long start, end, last = 0, stack_start = 0, stack_end = 0;
    void *heap_block = malloc(10);
    while (fgets(line, sizeof line, maps)) {
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) { puts("FAIL a strange line"); continue; }
        unsorted += start < last || end <= start;
        last = end;
        program += strstr(line, self) != NULL;
        code_line += start <= (uintptr_t)main && (uintptr_t)main < end && strstr(line, self) && rights[2] == 'x';
        if (strstr(line, "[stack]")) { stack++; stack_start = start; stack_end = end; }
        heap += strstr(line, "[heap]") != NULL;
        libc += strstr(line, "libc.so.6") != NULL;
        char *file = strrchr(line, '/');
        foreign += file && strstr(file, "whodunit") != NULL;
    }
    CHECK("program is mapped", program >= 4);
    CHECK("main lies in executable code of the program", code_line == 1);
    CHECK("one stack", stack == 1);
    CHECK("this frame lies in it", stack_start <= (uintptr_t)&maps && (uintptr_t)&maps < stack_end);
    CHECK("arguments lie in it", stack_start <= (uintptr_t)argv && (uintptr_t)argv[0] < stack_end);
    CHECK("heap", heap == 1);
    CHECK("libc is mapped", libc >= 3);
    CHECK("nothing foreign is named", foreign == 0);
    CHECK("sorted, not overlapping", unsorted == 0);
    free(heap_block);

    FILE *comm = fopen("/proc/self/comm", "r");
    MUST(fgets(line, sizeof line, comm));
    printf("comm %s", line);
    FILE *stat = fopen("/proc/self/stat", "r");
    int pid, parent;
    char name[64], state;
    CHECK("stat", fscanf(stat, "%d (%63[^)]) %c %d", &pid, name, &state, &parent) == 4 && pid == getpid() && parent == getppid() && state == 'R');
    printf("name in stat %s\n", name);
    printf("threads %d\n", status_field("Threads:"));
    CHECK("ids in status", status_field("Pid:") == getpid() && status_field("Tgid:") == getpid() && status_field("PPid:") == getppid());
    printf("tracer %d\n", status_field("TracerPid:"));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) MUST(pthread_create(&threads[i], NULL, waits, NULL) == 0);
    for (int i = 0; i < 3; i++) sem_wait(&ready);
    printf("threads %d\n", status_field("Threads:"));
    for (int i = 0; i < 3; i++) sem_post(&done);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
