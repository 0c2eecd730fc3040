// SPDX-License-Identifier: Apache-2.0
// Starts a process for a command as a shell would; it inherits only the suite's limits.
#ifndef ZG_LAUNCH_START_H
#define ZG_LAUNCH_START_H

#include <sys/types.h>

// Starts argv, ended by NULL, as the leader of a new process group, with empty input and with output_fd and error_fd,
// which may be equal, as stdout and stderr. The kernel kills it when the calling thread ends. ERR_USAGE: it cannot be
// started; ERR_IO: the system provides no process. After an error there is no process to wait for.
int launch_start(const char *const *argv, int output_fd, int error_fd, pid_t *leader);

#endif
