// SPDX-License-Identifier: Apache-2.0
// For tests: a chain of processes. Each forks the next one and ends; each is in a session of its own and ignores
// SIGTERM. The argument names a file whose modification time says that the chain lives; the chain ends by itself after
// a minute.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT, 0666) : -1;
    time_t end = time(NULL) + 60;
    signal(SIGTERM, SIG_IGN);
    while (fd >= 0 && time(NULL) < end) {
        pid_t next = fork();
        if (next != 0)
            _exit(next < 0);
        setsid();
        futimens(fd, NULL);
    }
    return fd < 0;
}
