/* System calls that do next to nothing: what remains is the cost of leaving the program. */
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    for (int i = 0; i < 2000000; i++)
        syscall(SYS_getppid);
    return 0;
}
