// execve by a thread while others run: they vanish, and the process id stays.
//@ cc: -O1 -pthread
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t ready;
static char pid_text[16];
static void *busy(void *unused) { (void)unused; sem_post(&ready); for (volatile long i = 0;; i++) ; return NULL; }
static void *blocked(void *unused) { (void)unused; sem_post(&ready); for (;;) pause(); return NULL; }
static void *becomes(void *self) {
    sem_wait(&ready);
    sem_wait(&ready);
    execl("/proc/self/exe", self, pid_text, NULL);
    return NULL;
}
int main(int argc, char **argv) {
    if (argc > 1) {
        CHECK("same process", atoi(argv[1]) == getpid());
        int n = 0;
        DIR *directory = opendir("/proc/self/task");
        for (struct dirent *entry; (entry = readdir(directory));) n += entry->d_name[0] != '.';
        printf("threads %d\n", n);
        CHECK("main thread id is the process id", gettid() == getpid());
        return 3;
    }
    pthread_t threads[3];
    sem_init(&ready, 0, 0);
    snprintf(pid_text, sizeof pid_text, "%d", getpid());
    MUST(pthread_create(&threads[0], NULL, busy, NULL) == 0);
    MUST(pthread_create(&threads[1], NULL, blocked, NULL) == 0);
    MUST(pthread_create(&threads[2], NULL, becomes, argv[0]) == 0);
    pthread_join(threads[2], NULL);
    puts("FAIL exec returned");
    return 1;
}
