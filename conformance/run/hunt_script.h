// SPDX-License-Identifier: Apache-2.0
// A script for a report upstream: the shrunk case in plain PyTorch or DeepSpeed, without the suite.
#ifndef ZG_HUNT_SCRIPT_H
#define ZG_HUNT_SCRIPT_H

#include "conformance/run/check_batch.h"

// True if a script can express the case: its numbers fit into a few lines, and the library ("torch", "deepspeed"; may
// be null) has its features. The words of the command say which mode of PyTorch it is, such as "fsdp2".
bool hunt_script_can(const struct hunt_case *h, const char *upstream, const char *const *command);

// Writes it: at most 40 lines of Python that print what differs from unsharded Adam in the same process, by more than
// roundings.
int hunt_script(const struct hunt_case *h, const char *upstream, const char *const *command,
                const struct check_failure *failure, FILE *out);

#endif
