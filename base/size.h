// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: 4096, 64K, 64KiB. K, M, G and T are powers of 1024.
#ifndef ZG_SIZE_H
#define ZG_SIZE_H

#include <stdint.h>
#include <stdio.h>

// ERR_USAGE for anything else, and for what does not fit 64 bits.
int size_parse(const char *text, uint64_t *out);

// "1,234,567" in a buffer of the caller's.
enum { SIZE_TEXT_BYTES = 32 };
const char *size_text(uint64_t value, char out[SIZE_TEXT_BYTES]);

// "1.5 GiB": bytes to four digits, in the largest unit that leaves at least one.
const char *size_short_text(uint64_t bytes, char out[SIZE_TEXT_BYTES]);

#endif
