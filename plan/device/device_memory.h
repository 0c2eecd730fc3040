// SPDX-License-Identifier: Apache-2.0
// Counts a rank's memory in a GPU implementation. The reference's own ledger counts what the reference holds: fp32
// activations, and buffers of its own design.
#pragma once

#include "plan/device/device_ledger.h"

void device_memory_of(const struct device_setting *setting, struct device_memory *out);

// "the loss", "the last block's backward", ...
const char *device_moment_name(enum device_moment moment);
