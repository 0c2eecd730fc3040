// SPDX-License-Identifier: Apache-2.0
// Why a command ended badly, as its output tells.
#pragma once

#include <stddef.h>

// The line that names the first exception in an output file, of a chain of exceptions the last; without one, the first
// line that speaks of an error, or the last lines. Launchers' prefixes ("[rank0]: ") are left out, and unprintable
// characters replaced. Returns out.
const char *crash_text(const char *output_path, char *out, size_t bytes);
