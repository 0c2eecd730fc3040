// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch_internal.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_STARTED = 127 };

// Makes exec close all descriptors but the first three.
static void hide_descriptors(void)
{
    enum { OLD_SYSTEM_MAX = 65536 };
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = 3; fd < OLD_SYSTEM_MAX; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Runs in the new process: resets all state that exec keeps. Calls only functions allowed between fork and exec.
static void become(const char *const *argv, const int fds[3], int failure_fd, pid_t suite)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != suite)
        _exit(NOT_STARTED);
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        signal(signal_number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    hide_descriptors();
    if (dup2(fds[0], 0) >= 0 && dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0)
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    int failure = errno;
    ssize_t written = write(failure_fd, &failure, sizeof failure);
    _exit(written > 0 ? NOT_STARTED : NOT_STARTED + 1);
}

// Forks with signals blocked, so that no handler of the suite runs in the new process.
static pid_t fork_command(const char *const *argv, const int fds[3], int failure_fd)
{
    sigset_t all, kept;
    pid_t suite = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pid_t pid = fork();
    if (pid == 0)
        become(argv, fds, failure_fd, suite);
    int failure = errno;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    errno = failure;
    return pid;
}

// Starts the command and waits for exec: the pipe closes on success and carries errno on failure.
static int start_through(const char *const *argv, const int fds[3], const int failure_fds[2], pid_t *leader)
{
    const char *name = argv[0];
    char shown[TEXT_MESSAGE_BYTES];
    int failure = 0;
    *leader = fork_command(argv, fds, failure_fds[1]);
    if (*leader < 0)
        return err_set(ERR_IO, "cannot create a process for %s: %s", text_message(shown, name, 200), strerror(errno));
    setpgid(*leader, *leader);
    close(failure_fds[1]);
    ssize_t bytes;
    while ((bytes = read(failure_fds[0], &failure, sizeof failure)) < 0 && errno == EINTR)
        continue;
    if (bytes == 0)
        return ERR_NONE;
    waitpid(*leader, NULL, 0);
    return err_set(ERR_USAGE, "%s: cannot be started: %s", text_message(shown, name, 200), strerror(failure));
}

int launch_start(const char *const *argv, int output_fd, int error_fd, pid_t *leader)
{
    int failure_fds[2];
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return err_set(ERR_IO, "/dev/null: cannot be opened: %s", strerror(errno));
    const int fds[3] = {null_fd, output_fd, error_fd};
    int rc;
    if (pipe2(failure_fds, O_CLOEXEC) != 0) {
        rc = err_set(ERR_IO, "cannot create a pipe to start %s: %s", argv[0], strerror(errno));
    } else {
        rc = start_through(argv, fds, failure_fds, leader);
        close(failure_fds[0]);
        if (*leader < 0)
            close(failure_fds[1]);
    }
    close(null_fd);
    return rc;
}
