// SPDX-License-Identifier: Apache-2.0
// Shared by launch.c and its parts.
#pragma once

#include "base/process/launch_watch.h"

#include <sys/types.h>

// Ends a command with all its descendants.

// Sends SIGTERM to the leader and all its descendants, SIGKILL after 2 s, and returns when this process, their
// subreaper, has no child left but those of `before`. *status: as waitpid gives it for the leader. ERR_IO: some cannot
// be killed within 10 s more.
int launch_end(pid_t leader, const struct process_list *before, int *status);

// Starts a process for a command as a shell would; it inherits only the suite's limits.

// Starts argv, ended by NULL, as the leader of a new process group, with empty input and with output_fd and error_fd,
// which may be equal, as stdout and stderr. The kernel kills it when the calling thread ends. ERR_USAGE: it cannot be
// started; ERR_IO: the system provides no process. After an error there is no process to wait for.
int launch_start(const char *const *argv, int output_fd, int error_fd, pid_t *leader);
