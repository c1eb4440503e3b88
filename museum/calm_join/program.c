// A chain of threads: each joins the one before it and goes on with its buffer, without any lock.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STAGES 5
#define SIZE 64

struct stage {
    int number;
    struct stage *before;
    pthread_t thread;
    int *buffer;
};

static struct stage stages[STAGES];

static void *run_stage(void *argument)
{
    struct stage *stage = argument;
    if (stage->before) {
        pthread_join(stage->before->thread, NULL);
        stage->buffer = stage->before->buffer;
        stage->before->buffer = NULL;
    } else {
        stage->buffer = calloc(SIZE, sizeof *stage->buffer);
    }
    for (int index = 0; index < SIZE; index++)
        stage->buffer[index] += stage->number * index;
    return NULL;
}

int main(void)
{
    long sum = 0;
    for (int number = 0; number < STAGES; number++) {
        stages[number].number = number + 1;
        stages[number].before = number ? &stages[number - 1] : NULL;
        pthread_create(&stages[number].thread, NULL, run_stage, &stages[number]);
    }
    pthread_join(stages[STAGES - 1].thread, NULL);
    for (int index = 0; index < SIZE; index++)
        sum += stages[STAGES - 1].buffer[index];
    free(stages[STAGES - 1].buffer);
    printf("sum %ld\n", sum);
    return 0;
}
