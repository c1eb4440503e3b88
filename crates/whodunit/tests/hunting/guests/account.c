// Each access is under the lock, but the check and the withdrawal are not under the same one.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static int look(void) {
    pthread_mutex_lock(&lock);
    int now = balance;
    pthread_mutex_unlock(&lock);
    return now;
}

static void take(int amount) {
    pthread_mutex_lock(&lock);
    balance -= amount;
    assert(balance >= 0);
    pthread_mutex_unlock(&lock);
}

static void *withdraw(void *unused) {
    (void)unused;
    if (look() >= 80)
        take(80);
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, withdraw, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
