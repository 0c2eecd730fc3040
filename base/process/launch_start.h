// SPDX-License-Identifier: Apache-2.0
// A new process for a command, as a shell would start it: nothing of the suite is left in it but its limits.
#ifndef ZG_LAUNCH_START_H
#define ZG_LAUNCH_START_H

#include <sys/types.h>

// Starts argv, which NULL ends, as the leader of a new process group, with no input, its output in output_fd and its
// errors in error_fd, which may be the same. It is killed when the calling thread ends. ERR_USAGE: it cannot be
// started; ERR_IO: there is no process to be had. Then there is nothing to wait for.
int launch_start(const char *const *argv, int output_fd, int error_fd, pid_t *leader);

#endif
