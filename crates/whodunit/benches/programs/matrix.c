/* Matrix multiplication: a tight loop of floating-point work on large arrays. */
#include <stdio.h>

enum { N = 900 };

static double a[N][N], b[N][N], c[N][N];

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (i * 7 + j * 3) % 11;
            b[i][j] = (i * 5 - j * 2) % 13;
        }
    for (int round = 0; round < 8; round++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    c[i][j] += a[i][k] * b[k][j];
    double trace = 0;
    for (int i = 0; i < N; i++)
        trace += c[i][i];
    printf("%.1f\n", trace);
    return 0;
}
