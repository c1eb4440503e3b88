// Short-lived nodes: what one thread frees, the allocator gives to another, which uses it properly.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3
#define NODES 60
#define POOL 4

struct node {
    int owner, value;
    struct node *next;
};

static struct node nodes[POOL];
static struct node *free_nodes;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

static struct node *take_node(void)
{
    pthread_mutex_lock(&pool_lock);
    struct node *node = free_nodes;
    free_nodes = node->next;
    pthread_mutex_unlock(&pool_lock);
    return node;
}

static void give_node(struct node *node)
{
    pthread_mutex_lock(&pool_lock);
    node->next = free_nodes;
    free_nodes = node;
    pthread_mutex_unlock(&pool_lock);
}

static void *use_nodes(void *argument)
{
    int self = *(int *)argument;
    long n_own = 0;
    for (int number = 0; number < NODES; number++) {
        struct node *node = take_node();
        node->owner = self;
        node->value = number;
        n_own += node->owner == self && node->value == number;
        give_node(node);
    }
    *(int *)argument = n_own;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int number = 0; number < POOL; number++)
        give_node(&nodes[number]);
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, use_nodes, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("%d %d %d\n", numbers[0], numbers[1], numbers[2]);
    return 0;
}
