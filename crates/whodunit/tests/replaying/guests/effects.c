// Does things that others can see. Arguments: a UDP port, a TCP port, and the id of a process to stop.
// Prints what it found on the way, which is the same in every run.
//@ cc: -O1
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in loopback(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void files(void) {
    char text[200] = "";
    int input = open("input.txt", O_RDONLY);
    ssize_t length = read(input, text, sizeof text - 1);
    printf("input: %zd bytes, %s", length, text);
    close(input);
    int made = open("made.txt", O_CREAT | O_EXCL | O_WRONLY, 0644);
    printf("made: %zd\n", write(made, "made\n", 5));
    close(made);
    int grown = open("grown.txt", O_WRONLY | O_APPEND);
    printf("grown: %zd\n", write(grown, "more\n", 5));
    close(grown);
    printf("folder: %d\n", mkdir("folder", 0755));
    printf("renamed: %d, removed: %d\n", rename("old.txt", "folder/new.txt"), unlink("doomed.txt"));
}

static void packets(const char *udp, const char *tcp) {
    struct sockaddr_in address = loopback(udp);
    int datagram = socket(AF_INET, SOCK_DGRAM, 0);
    printf("sent: %zd\n", sendto(datagram, "hello", 5, 0, (struct sockaddr *)&address, sizeof address));
    address = loopback(tcp);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    printf("connected: %d\n", connect(stream, (struct sockaddr *)&address, sizeof address));
    printf("written: %zd\n", write(stream, "hello", 5));
    close(stream);
    close(datagram);
}

static void signals(const char *other) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        for (;;) pause();
    }
    printf("child killed: %d\n", kill(child, SIGTERM));
    printf("child waited for: %d\n", waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGTERM);
    printf("other stopped: %d\n", kill(atoi(other), SIGSTOP));
}

int main(int argc, char **argv) {
    char text[200] = "";
    if (argc != 4) return 1;
    setvbuf(stdout, 0, _IOLBF, 0);
    printf("standard input: %s", fgets(text, sizeof text, stdin));
    files();
    packets(argv[1], argv[2]);
    signals(argv[3]);
    fprintf(stderr, "all done\n");
    return 5;
}
