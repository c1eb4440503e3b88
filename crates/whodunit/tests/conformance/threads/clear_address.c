// The address that the kernel clears at a thread's end can be asked for, set again, and still ends a join.
//@ cc: -O2 -pthread
//@ threaded
#include "check.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *set_again(void *argument) {
    int *address = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &address) == 0) {
        if (*address != gettid())
            return "wrong address";
        if (syscall(SYS_set_tid_address, address) != gettid())
            return "wrong id";
    }
    return argument;
}

int main(void) {
    for (int round = 0; round < 5; round++) {
        pthread_t thread;
        void *problem;
        MUST(pthread_create(&thread, NULL, set_again, NULL) == 0);
        pthread_join(thread, &problem);
        CHECK("joined", problem == NULL);
    }
}
