// Locks in shared memory between processes: contention, death of the owning process, condition variables, barriers.
//@ cc: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct shared { pthread_mutex_t mutex; pthread_cond_t changed; pthread_barrier_t barrier; sem_t semaphore; pthread_rwlock_t rwlock; long counter; int stage; } *shared;

static void child_work(int id) {
    pthread_barrier_wait(&shared->barrier);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&shared->mutex);
        shared->counter++;
        pthread_mutex_unlock(&shared->mutex);
    }
    // In turn: child 0, 1, 2, 3.
    pthread_mutex_lock(&shared->mutex);
    while (shared->stage != id)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    printf("child %d has its turn\n", id);
    shared->stage++;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    pthread_rwlock_rdlock(&shared->rwlock);
    sem_post(&shared->semaphore);
    pthread_rwlock_unlock(&shared->rwlock);
    _exit(id);
}

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    pthread_mutexattr_t ma; pthread_condattr_t ca; pthread_barrierattr_t ba; pthread_rwlockattr_t ra;
    pthread_mutexattr_init(&ma); pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED); pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
    pthread_condattr_init(&ca); pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_barrierattr_init(&ba); pthread_barrierattr_setpshared(&ba, PTHREAD_PROCESS_SHARED);
    pthread_rwlockattr_init(&ra); pthread_rwlockattr_setpshared(&ra, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &ma); pthread_cond_init(&shared->changed, &ca); pthread_barrier_init(&shared->barrier, &ba, 5); pthread_rwlock_init(&shared->rwlock, &ra);
    sem_init(&shared->semaphore, 1, 0);
    pid_t children[4];
    for (int i = 0; i < 4; i++)
        if ((children[i] = fork()) == 0)
            child_work(i);
    pthread_barrier_wait(&shared->barrier);
    for (int i = 0; i < 4; i++)
        sem_wait(&shared->semaphore);
    for (int i = 0; i < 4; i++) {
        int status;
        waitpid(children[i], &status, 0);
        printf("child %d: %d\n", i, WEXITSTATUS(status));
    }
    printf("counter %ld\n", shared->counter);
    pid_t dying = fork();
    if (dying == 0) {
        pthread_mutex_lock(&shared->mutex);
        _exit(0);
    }
    waitpid(dying, NULL, 0);
    CHECK("owner process died", pthread_mutex_lock(&shared->mutex) == EOWNERDEAD);
    CHECK("consistent", pthread_mutex_consistent(&shared->mutex) == 0 && pthread_mutex_unlock(&shared->mutex) == 0);
    return 0;
}
