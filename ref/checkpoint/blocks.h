// SPDX-License-Identifier: Apache-2.0
// Digests of a rank's file by blocks, so that a part of it is checked without the rest. Its last tensor, "blocks", has
// XXH3-128 of the header, then of each BLOCK_BYTES of the data of all other tensors, of which the last may be shorter:
// 16 bytes for each digest, the most significant first. The manifest has the digest of this tensor.
#pragma once

#include "ref/checkpoint/safetensors.h"

#define BLOCKS_NAME "blocks"
enum { BLOCK_BYTES = 1 << 18, BLOCK_DIGEST_BYTES = sizeof(XXH128_canonical_t) };

// The tensor of a file with this many bytes of data before it.
struct safetensors_tensor blocks_tensor(uint64_t data_bytes);

// ERR_USAGE: the file's last tensor is not of that form.
int blocks_check(const struct safetensors *file);

// Bytes of the data that the blocks of such a file cover.
uint64_t blocks_covered_bytes(const struct safetensors *file);

// Digests that are being made, in the order of the bytes.
struct blocks {
    XXH3_state_t *hash;
    size_t used;  // bytes of the block so far
    unsigned char *table;
    size_t table_bytes;
};

// header: its digest. ERR_MEMORY.
int blocks_open(uint64_t data_bytes, XXH128_hash_t header, struct blocks *out);
void blocks_add(struct blocks *blocks, const void *data, size_t bytes);

// Completes the last block: table and table_bytes are then the tensor's data.
void blocks_finish(struct blocks *blocks);
void blocks_close(struct blocks *blocks);
