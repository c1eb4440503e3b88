// Tables are filled by whoever comes first through pthread_once, and read without a lock by all.
#include <pthread.h>
#include <stdio.h>

#define THREADS 4

static unsigned crc_table[256];
static int n_fillings;
static pthread_once_t table_filled = PTHREAD_ONCE_INIT;
static unsigned results[THREADS];

static void fill_table(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned word = byte;
        for (int bit = 0; bit < 8; bit++)
            word = word & 1 ? word >> 1 ^ 0xedb88320u : word >> 1;
        crc_table[byte] = word;
    }
    n_fillings++;
}

static unsigned crc_of(const char *text)
{
    unsigned crc = ~0u;
    pthread_once(&table_filled, fill_table);
    for (; *text; text++)
        crc = crc >> 8 ^ crc_table[(crc ^ (unsigned char)*text) & 255];
    return ~crc;
}

static void *work(void *argument)
{
    char text[32];
    int self = *(int *)argument;
    for (int round = 0; round < 10; round++) {
        snprintf(text, sizeof text, "line %d of thread %d", round, self);
        results[self] += crc_of(text);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    unsigned all = 0;
    for (int number = 0; number < THREADS; number++) {
        numbers[number] = number;
        pthread_create(&threads[number], NULL, work, &numbers[number]);
    }
    for (int number = 0; number < THREADS; number++) {
        pthread_join(threads[number], NULL);
        all += results[number];
    }
    printf("filled %d time, %08x\n", n_fillings, all);
    return 0;
}
