// SPDX-License-Identifier: Apache-2.0
#include "ref/checkpoint/blocks.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static uint64_t table_bytes(uint64_t data_bytes)
{
    return (1 + data_bytes / BLOCK_BYTES + (data_bytes % BLOCK_BYTES > 0)) * BLOCK_DIGEST_BYTES;
}

struct safetensors_tensor blocks_tensor(uint64_t data_bytes)
{
    return (struct safetensors_tensor){
        .name = BLOCKS_NAME, .type = TENSOR_U8, .shape_rank = 1, .shape = {table_bytes(data_bytes)}};
}

uint64_t blocks_covered_bytes(const struct safetensors *file)
{
    return file->tensors[file->tensor_count - 1].begin;
}

int blocks_check(const struct safetensors *file)
{
    const struct safetensors_tensor *last = file->tensor_count > 0 ? &file->tensors[file->tensor_count - 1] : NULL;
    if (last && strcmp(last->name, BLOCKS_NAME) == 0 && last->type == TENSOR_U8 &&
        last->count == table_bytes(last->begin))
        return ERR_NONE;
    return err_set(ERR_USAGE, "%s: its last tensor is not \"" BLOCKS_NAME "\" with a digest for each block",
                   file->path);
}

static void put_digest(struct blocks *blocks, XXH128_hash_t digest)
{
    XXH128_canonicalFromHash((XXH128_canonical_t *)(blocks->table + blocks->table_bytes), digest);
    blocks->table_bytes += BLOCK_DIGEST_BYTES;
    blocks->used = 0;
    XXH3_128bits_reset(blocks->hash);
}

int blocks_open(uint64_t data_bytes, XXH128_hash_t header, struct blocks *out)
{
    *out = (struct blocks){.hash = XXH3_createState(), .table = malloc(table_bytes(data_bytes))};
    if (!out->hash || !out->table) {
        blocks_close(out);
        return err_set(ERR_MEMORY, "no memory for the digests of %" PRIu64 " bytes", data_bytes);
    }
    put_digest(out, header);
    return ERR_NONE;
}

void blocks_add(struct blocks *blocks, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        size_t room = BLOCK_BYTES - blocks->used, now = bytes < room ? bytes : room;
        XXH3_128bits_update(blocks->hash, at, now);
        blocks->used += now;
        if (blocks->used == BLOCK_BYTES)
            put_digest(blocks, XXH3_128bits_digest(blocks->hash));
        at += now;
        bytes -= now;
    }
}

void blocks_finish(struct blocks *blocks)
{
    if (blocks->used > 0)
        put_digest(blocks, XXH3_128bits_digest(blocks->hash));
}

void blocks_close(struct blocks *blocks)
{
    XXH3_freeState(blocks->hash);
    free(blocks->table);
    *blocks = (struct blocks){0};
}
