// SPDX-License-Identifier: Apache-2.0
// Training text, byte by byte. The default is the King James Bible, as the program `bible` of the Debian package
// bible-kjv prints it. Nothing is downloaded or written to disk.
#pragma once

#include "base/file.h"

#include <stddef.h>
#include <stdint.h>

struct text;

// Names a text that is part of the program, the multiplication table in words and digits: for hosts without the
// default, and for states whose digests are known (datasets/digests.txt).
#define TEXT_TIMES "@times"

// path: any text file, TEXT_TIMES, or NULL for the default. ERR_USAGE says what to install or which option to give.
int text_open(const char *path, struct text **out);

// Null-safe.
void text_close(struct text *text);

size_t text_bytes(const struct text *text);

// XXH3-128 of the whole text, in hexadecimal.
void text_digest(const struct text *text, char out[FILE_DIGEST_BYTES]);

// Fills tokens ([sequence_count][length + 1], each a byte 0 .. 255) with parts of the text that begin at positions
// drawn from (seed, step, sample). `index` numbers the micro-batches of a step, micro x world + rank; samples are
// numbered index x sequence_count + row. The samples of a step therefore depend on their number only, not on their
// distribution over ranks, micro-steps and rows. ERR_USAGE if the text is shorter than one row.
int text_batch(const struct text *text, uint64_t seed, uint64_t step, uint64_t index, size_t sequence_count,
               size_t length, uint16_t *tokens);
