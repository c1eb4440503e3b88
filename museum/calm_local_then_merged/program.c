// Word counts: every thread counts into storage of its own and merges it under a lock, once.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define LETTERS 26

static const char *const texts[THREADS] = {
    "the quick brown fox jumps over the lazy dog",
    "pack my box with five dozen liquor jugs",
    "how vexingly quick daft zebras jump",
    "sphinx of black quartz judge my vow",
};

static __thread long local_counts[LETTERS];
static long counts[LETTERS];
static int n_merged;
static pthread_mutex_t merge_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_letters(const char *text)
{
    for (; *text; text++)
        if (*text >= 'a' && *text <= 'z')
            local_counts[*text - 'a']++;
}

static void merge(void)
{
    pthread_mutex_lock(&merge_lock);
    for (int letter = 0; letter < LETTERS; letter++)
        counts[letter] += local_counts[letter];
    n_merged++;
    pthread_mutex_unlock(&merge_lock);
}

static void *count(void *text)
{
    memset(local_counts, 0, sizeof local_counts);
    for (int round = 0; round < 10; round++)
        count_letters(text);
    merge();
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, count, (void *)texts[number]);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    printf("%d merged, e %ld, q %ld\n", n_merged, counts['e' - 'a'], counts['q' - 'a']);
    return 0;
}
