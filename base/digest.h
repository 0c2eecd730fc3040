// SPDX-License-Identifier: Apache-2.0
// XXH3-128 as 32 hexadecimal digits, upper half first: the form of all digests in files and messages.
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

enum { DIGEST_TEXT_BYTES = 33 };  // with the zero byte

static inline void digest_text(XXH128_hash_t hash, char out[DIGEST_TEXT_BYTES])
{
    snprintf(out, DIGEST_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
}
