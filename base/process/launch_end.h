// SPDX-License-Identifier: Apache-2.0
// Ends a command with all its descendants.
#ifndef ZG_LAUNCH_END_H
#define ZG_LAUNCH_END_H

#include "base/process/launch_watch.h"

// Sends SIGTERM to the leader and all its descendants, SIGKILL after 2 s, and returns when this process, their
// subreaper, has no child left but those of `before`. *status: as waitpid gives it for the leader. ERR_IO: some cannot
// be killed within 10 s more.
int launch_end(pid_t leader, const struct process_list *before, int *status);

#endif
