// Two administrators set a server's address, one the host first, the other the port first; the result belongs to neither.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("host-set 9", "starting", "finished", "port-setting 9");

#define CHANGES 10

static struct {
    int host, port;
    pthread_mutex_t lock;
} address = {0, 0, PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t change_lock = PTHREAD_MUTEX_INITIALIZER;

static void set(int *part, int value)
{
    pthread_mutex_lock(&address.lock);
    *part = value;
    pthread_mutex_unlock(&address.lock);
}

static void begin_change(void)
{
#ifdef FIXED
    pthread_mutex_lock(&change_lock);
#endif
}

static void end_change(void)
{
#ifdef FIXED
    pthread_mutex_unlock(&change_lock);
#endif
}

static void *set_host_first(void *unused)
{
    (void)unused;
    for (int change = 0; change < CHANGES; change++) {
        begin_change();
        set(&address.host, 1); /* guilty: host-1 */
        AT_NUMBER("host-set", change);
        AT_NUMBER("port-setting", change);
        set(&address.port, 1); /* guilty: port-1 */
        end_change();
    }
    return NULL;
}

static void *set_port_first(void *unused)
{
    (void)unused;
    AT("starting");
    for (int change = 0; change < CHANGES; change++) {
        begin_change();
        set(&address.port, 2); /* guilty: port-2 */
        set(&address.host, 2); /* guilty: host-2 */
        end_change();
    }
    AT("finished");
    return NULL;
}

int main(void)
{
    pthread_t first, second;
    (void)change_lock;
    pthread_create(&first, NULL, set_host_first, NULL);
    pthread_create(&second, NULL, set_port_first, NULL);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    if (address.host != address.port) {
        printf("host of %d, port of %d\n", address.host, address.port);
        return 1;
    }
    puts("host and port belong together");
    return 0;
}
