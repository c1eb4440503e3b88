// OpenMP: parallel loops, reductions, critical sections, tasks, sections, ordered output.
//@ cc: -O2 -fopenmp
//@ env: OMP_NUM_THREADS=4
//@ env: OMP_WAIT_POLICY=passive
//@ threaded
#include "check.h"
#include <omp.h>

static int fibonacci(int n) {
    if (n < 2) return n;
    int a, b;
#pragma omp task shared(a) if (n > 8)
    a = fibonacci(n - 1);
#pragma omp task shared(b) if (n > 8)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void) {
    long sum = 0;
    int counter = 0, atomic_counter = 0, team = 0, result = 0;
    static int squares[2000];
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 16)
    for (int i = 0; i < 2000; i++) { squares[i] = i * i; sum += i; }
    printf("sum %ld, last square %d\n", sum, squares[1999]);
#pragma omp parallel
    {
#pragma omp single
        team = omp_get_num_threads();
        for (int i = 0; i < 200; i++) {
#pragma omp critical
            counter++;
#pragma omp atomic
            atomic_counter += 2;
        }
#pragma omp barrier
#pragma omp master
        printf("counters %d %d\n", counter, atomic_counter);
    }
    printf("team %d\n", team);
#pragma omp parallel for ordered
    for (int i = 0; i < 6; i++) {
#pragma omp ordered
        printf("ordered %d\n", i);
    }
#pragma omp parallel
#pragma omp single
    result = fibonacci(14);
    printf("tasks %d\n", result);
    int left = 0, right = 0;
#pragma omp parallel sections
    {
#pragma omp section
        left = 1;
#pragma omp section
        right = 2;
    }
    printf("sections %d\n", left + right);
    return 0;
}
