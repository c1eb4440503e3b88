// A circular list: each thread pops the front node, adds ten and pushes it at the back; pop and push are locked apart.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("popped 0", "popping 1", "pushed 1", "pushing 0");

// Every node goes round once, so nodes that have changed places stay so.
#define ROUNDS 8
#define NODES (2 * ROUNDS)

struct node {
    int value;
    struct node *next;
};

struct list {
    struct node *head, *tail;
    int size;
    pthread_mutex_t lock;
    pthread_mutex_t turn;
};

static struct list list = {NULL, NULL, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void push_back(struct list *to, struct node *node)
{
    pthread_mutex_lock(&to->lock);
    node->next = NULL;
    if (to->tail)
        to->tail->next = node; /* guilty: link */
    else
        to->head = node;
    to->tail = node; /* guilty: push */
    to->size++; /* guilty: grow */
    pthread_mutex_unlock(&to->lock);
}

static struct node *pop_front(struct list *from)
{
    pthread_mutex_lock(&from->lock);
    struct node *node = from->head; /* guilty: pop */
    from->head = node->next;
    if (!from->head)
        from->tail = NULL;
    from->size--; /* guilty: shrink */
    pthread_mutex_unlock(&from->lock);
    return node;
}

static void rotate(struct list *around, int worker)
{
    (void)worker;
#ifdef FIXED
    pthread_mutex_lock(&around->turn);
#endif
    AT_NUMBER("popping", worker);
    struct node *node = pop_front(around);
    AT_NUMBER("popped", worker);
    node->value += 10;
    AT_NUMBER("pushing", worker);
    push_back(around, node);
    AT_NUMBER("pushed", worker);
#ifdef FIXED
    pthread_mutex_unlock(&around->turn);
#endif
}

static void *work(void *argument)
{
    int worker = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++)
        rotate(&list, worker);
    return NULL;
}

static void fill(struct list *empty)
{
    for (int number = 0; number < NODES; number++) {
        struct node *node = malloc(sizeof *node);
        node->value = number;
        push_back(empty, node);
    }
}

static int check(const struct list *full)
{
    int n_nodes = 0;
    for (const struct node *node = full->head; node; node = node->next, n_nodes++) {
        if (node->value != 10 + n_nodes) {
            printf("node %d has the value %d\n", n_nodes, node->value);
            return 1;
        }
    }
    printf("%d nodes in order\n", n_nodes);
    return n_nodes != full->size;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    fill(&list);
    for (int number = 0; number < 2; number++)
        pthread_create(&threads[number], NULL, work, &numbers[number]);
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    return check(&list);
}
