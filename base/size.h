// SPDX-License-Identifier: Apache-2.0
// Sizes in text: 4096, 64K, 64KiB. K, M, G and T are powers of 1024.
#pragma once

#include <stdint.h>
#include <stdio.h>

// ERR_USAGE for any other text and for sizes beyond 64 bits.
int size_parse(const char *text, uint64_t *out);

// Formats "1,234,567". Returns out.
enum { SIZE_TEXT_BYTES = 32 };
const char *size_text(uint64_t value, char out[SIZE_TEXT_BYTES]);

// Formats "1.5 GiB": four significant digits in the largest unit with a value of at least 1. Returns out.
const char *size_short_text(uint64_t bytes, char out[SIZE_TEXT_BYTES]);
