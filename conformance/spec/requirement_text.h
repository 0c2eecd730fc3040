// SPDX-License-Identifier: Apache-2.0
// SPEC.md, compiled in: the build makes requirement_text.c from it.
#ifndef ZG_REQUIREMENT_TEXT_H
#define ZG_REQUIREMENT_TEXT_H

#include <stddef.h>

extern const char requirement_text[];        // terminated
extern const size_t requirement_text_bytes;  // without the terminator

#endif
