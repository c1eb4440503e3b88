// A request of which no table tells where its answer goes: the structure that it names holds a pointer to another one.
// The answers lie on the stack, in the heap, in memory that nobody has touched, and in that of another thread.
//@ cc: -O1 -pthread
#include "check.h"
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct ethtool_value untouched[4096];
static pthread_barrier_t barrier;

static void ask(const char *where, struct ethtool_value *value) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_data = (void *)value};
    MUST(s >= 0);
    value->cmd = ETHTOOL_GLINK;
    value->data = 77;
    int result = ioctl(s, SIOCETHTOOL, &request);
    printf("%s: %d, link %u\n", where, result, value->data);
    fflush(stdout);
    close(s);
}

static void *another(void *argument) {
    struct ethtool_value value;
    pthread_barrier_wait(&barrier);
    ask("another thread", &value);
    return argument;
}

int main(void) {
    struct ethtool_value on_stack;
    ask("stack", &on_stack);
    struct ethtool_value *allocated = malloc(sizeof *allocated);
    ask("heap", allocated);
    free(allocated);
    ask("untouched", &untouched[2000]);
    char *fresh = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(fresh != MAP_FAILED);
    ask("across pages", (struct ethtool_value *)(fresh + 4096 - sizeof(int)));
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    MUST(pthread_create(&thread, NULL, another, NULL) == 0);
    ask("beside a thread", &on_stack);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    return 0;
}
