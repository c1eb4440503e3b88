/* Programs without data races, on OpenMP. The argument names one; without one, all are listed. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, SIZE = 1000 };

static long numbers[SIZE];

static long parallel_for(void)
{
    #pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++)
        numbers[i] = i;
    long sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += numbers[i];
    return sum;
}

static long reduction(void)
{
    long sum = 0;
    #pragma omp parallel for reduction(+ : sum) num_threads(THREADS)
    for (int i = 0; i < SIZE; i++)
        sum += i;
    return sum;
}

static long critical(void)
{
    long sum = 0;
    #pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++) {
        #pragma omp critical
        sum += i;
    }
    return sum;
}

static long named_critical(void)
{
    long even = 0, odd = 0;
    #pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++) {
        if (i % 2) {
            #pragma omp critical(odd_numbers)
            odd += i;
        } else {
            #pragma omp critical(even_numbers)
            even += i;
        }
    }
    return odd - even;
}

static long atomic_update(void)
{
    long sum = 0;
    #pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++) {
        #pragma omp atomic
        sum += i;
    }
    return sum;
}

static long barrier_phases(void)
{
    long cells[THREADS] = {0}, totals[THREADS] = {0};
    #pragma omp parallel num_threads(THREADS)
    {
        int me = omp_get_thread_num();
        for (int round = 0; round < 20; round++) {
            cells[me] += round;
            #pragma omp barrier
            for (int other = 0; other < THREADS; other++)
                totals[me] += cells[other];
            #pragma omp barrier
        }
    }
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += totals[i];
    return sum;
}

static long single_and_master(void)
{
    long value = 0, sum = 0;
    #pragma omp parallel num_threads(THREADS)
    {
        #pragma omp single
        value = 7;
        #pragma omp atomic
        sum += value;
        #pragma omp barrier
        #pragma omp master
        value = 9;
    }
    return sum + value;
}

static long dynamic_schedule(void)
{
    #pragma omp parallel for schedule(dynamic, 3) num_threads(THREADS)
    for (int i = 0; i < SIZE; i++)
        numbers[i] = 2 * i;
    #pragma omp parallel for schedule(guided) num_threads(THREADS)
    for (int i = 0; i < SIZE; i++)
        numbers[i] += i;
    long sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += numbers[i];
    return sum;
}

static long sections(void)
{
    long left = 0, right = 0;
    #pragma omp parallel sections num_threads(THREADS)
    {
        #pragma omp section
        for (int i = 0; i < SIZE; i++)
            left += i;
        #pragma omp section
        for (int i = 0; i < SIZE; i++)
            right += 2 * i;
    }
    return left + right;
}

static long locks(void)
{
    omp_lock_t lock;
    omp_nest_lock_t nest;
    long sum = 0, nested = 0;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    #pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < SIZE; i++) {
        omp_set_lock(&lock);
        sum += i;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nest);
        omp_set_nest_lock(&nest);
        nested++;
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
    }
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    return sum + nested;
}

static long ordered(void)
{
    long last = -1, in_order = 1;
    #pragma omp parallel for ordered num_threads(THREADS)
    for (int i = 0; i < 100; i++) {
        #pragma omp ordered
        {
            in_order &= last == i - 1;
            last = i;
        }
    }
    return in_order + last;
}

static long fibonacci(int n)
{
    if (n < 2)
        return n;
    long a, b;
    #pragma omp task shared(a)
    a = fibonacci(n - 1);
    #pragma omp task shared(b)
    b = fibonacci(n - 2);
    #pragma omp taskwait
    return a + b;
}

static long tasks(void)
{
    long result = 0;
    #pragma omp parallel num_threads(THREADS)
    #pragma omp single
    result = fibonacci(9);
    return result;
}

static const struct {
    const char *name;
    long (*run)(void);
} programs[] = {
    {"parallel_for", parallel_for},
    {"reduction", reduction},
    {"critical", critical},
    {"named_critical", named_critical},
    {"atomic_update", atomic_update},
    {"barrier_phases", barrier_phases},
    {"single_and_master", single_and_master},
    {"dynamic_schedule", dynamic_schedule},
    {"sections", sections},
    {"locks", locks},
    {"ordered", ordered},
    {"tasks", tasks},
};

int main(int count, char **words)
{
    size_t known = sizeof programs / sizeof *programs;
    for (size_t i = 0; i < known; i++)
        if (count == 2 && strcmp(words[1], programs[i].name) == 0) {
            printf("%ld\n", programs[i].run());
            return 0;
        }
    for (size_t i = 0; i < known; i++)
        printf("%s\n", programs[i].name);
    return count == 1 ? 0 : 2;
}
