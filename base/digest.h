// SPDX-License-Identifier: Apache-2.0
// XXH3-128 as 32 hexadecimal digits, upper half first: the form of all digests in files and messages.
#ifndef ZG_DIGEST_H
#define ZG_DIGEST_H

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

static inline void digest_text(XXH128_hash_t hash, char out[FILE_DIGEST_BYTES])
{
    snprintf(out, FILE_DIGEST_BYTES, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
}

#endif
