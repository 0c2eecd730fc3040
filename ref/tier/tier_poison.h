// SPDX-License-Identifier: Apache-2.0
// The NaN pattern of fresh memory. A byte that is read before it is written shows in the results, and a changed byte
// next to an allocation shows a write out of bounds.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NaN as fp32, as bf16 and as fp16. The pattern has a period of two bytes; its phase is the address's.
#define TIER_POISON UINT32_C(0x7fc07fc0)

void tier_poison(void *memory, size_t bytes);

// Returns whether all bytes, which are those at `address` or a copy of them, hold the pattern.
bool tier_is_poison(const void *memory, size_t bytes, uintptr_t address);
