/* Ways into functions and out of them: inlined, by return, by a jump. */
#include <setjmp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    long value;
};

int inlined_counter;
long sum;
static jmp_buf back;
static struct node *head;
static long *row;

static inline __attribute__((always_inline)) void bump(void)
{
    inlined_counter += 1;
}

__attribute__((noinline)) static void inner(void)
{
    sum += 1;
    longjmp(back, 1);
}

__attribute__((noinline)) static void outer(void)
{
    inner();
    sum += 1000;
}

__attribute__((noinline)) static void push(long value)
{
    struct node *node = malloc(sizeof(struct node));
    node->value = value;
    node->next = head;
    head = node;
}

int main(void)
{
    bump();
    if (setjmp(back) == 0)
        outer();
    push(4);
    push(5);
    head->next->value = 6;
    row = calloc(20, sizeof(long));
    row[3] = 9;
    if (fork() == 0) {
        sum = 77;
        _exit(0);
    }
    wait(NULL);
    return 0;
}
