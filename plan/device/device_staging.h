// SPDX-License-Identifier: Apache-2.0
// Buffers of frameworks: parameters that are gathered, gradients that are reduced.
#pragma once

#include "plan/device/device_lines.h"

// The lines of buffers, by the framework's way to shard.
void device_add_staging(const struct counting *c);
