// System V and POSIX shared memory, between processes and within one.
//@ cc: -O1
#include "check.h"
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

int main(void) {
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    MUST(id >= 0);
    char *one = shmat(id, NULL, 0), *two = shmat(id, NULL, SHM_RDONLY);
    MUST(one != (void *)-1 && two != (void *)-1);
    shmctl(id, IPC_RMID, NULL);
    strcpy(one + 5000, "segment");
    CHECK("attached twice", one != two && !strcmp(two + 5000, "segment"));
    pid_t child = fork();
    if (child == 0) { strcpy(one, "from the child"); _exit(0); }
    waitpid(child, NULL, 0);
    printf("%s\n", two);
    struct shmid_ds state;
    CHECK("attachments", shmctl(id, IPC_STAT, &state) == 0 && state.shm_nattch == 2 && state.shm_segsz == 8192);
    CHECK("detach", shmdt(one) == 0 && shmdt(two) == 0 && shmdt(two) == -1 && errno == EINVAL);
    CHECK("gone", shmat(id, NULL, 0) == (void *)-1);
    char name[64];
    snprintf(name, sizeof name, "/conformance-memory-%d", getpid());
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    MUST(file >= 0 && ftruncate(file, 4096) == 0);
    int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    child = fork();
    if (child == 0) {
        int again = shm_open(name, O_RDWR, 0);
        int *theirs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
        for (int i = 0; i < 100; i++) theirs[i] = i * i;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("squares %d %d\n", words[9], words[99]);
    CHECK("unlink", shm_unlink(name) == 0 && shm_open(name, O_RDWR, 0) == -1 && errno == ENOENT);
    return 0;
}
