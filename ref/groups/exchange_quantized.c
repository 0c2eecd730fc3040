// SPDX-License-Identifier: Apache-2.0
#include "ref/groups/exchange_quantized.h"

#include "base/err.h"
#include "ref/partition/collectives.h"
#include "ref/recipe/quantize.h"

#include <assert.h>

// values[count], which begin a block, and the same packed.
struct pack_arguments {
    void *values;
    enum dtype dtype;
    size_t count, block;
    int bits;
    unsigned char *packed;
};

static int run_pack(void *arguments)
{
    const struct pack_arguments *a = arguments;
    float x[QUANTIZE_BLOCK_MAX];
    unsigned char *packed = a->packed;
    for (size_t from = 0, length; from < a->count; from += length) {
        length = a->count - from < a->block ? a->count - from : a->block;
        dtype_widen(a->dtype, (const char *)a->values + from * dtype_bytes(a->dtype), x, length);
        quantize_block(x, length, a->bits, packed);
        packed += quantize_bytes(length, a->block, a->bits);
    }
    return ERR_NONE;
}

static int run_unpack(void *arguments)
{
    const struct pack_arguments *a = arguments;
    float x[QUANTIZE_BLOCK_MAX];
    const unsigned char *packed = a->packed;
    for (size_t from = 0, length; from < a->count; from += length) {
        length = a->count - from < a->block ? a->count - from : a->block;
        dequantize_block(packed, length, a->bits, x);
        dtype_narrow(a->dtype, x, (char *)a->values + from * dtype_bytes(a->dtype), length);
        packed += quantize_bytes(length, a->block, a->bits);
    }
    return ERR_NONE;
}

// Issues packed = values, or with `unpack` values = packed.
static int issue_pack(struct executor *executor, const struct pack_arguments *a, bool unpack)
{
    if (a->count == 0)
        return ERR_NONE;
    const struct executor_span spans[] = {
        {a->values, a->count * dtype_bytes(a->dtype), unpack ? EXECUTOR_WRITE : EXECUTOR_READ},
        {a->packed, quantize_bytes(a->count, a->block, a->bits), unpack ? EXECUTOR_READ : EXECUTOR_WRITE},
    };
    return executor_issue(executor, &(struct executor_operation){.name = unpack ? "dequantize" : "quantize",
                                                                 .lane = LANE_COMPUTE,
                                                                 .run = unpack ? run_unpack : run_pack,
                                                                 .arguments = a,
                                                                 .arguments_bytes = sizeof *a,
                                                                 .spans = spans,
                                                                 .span_count = 2,
                                                                 .work_bytes = executor_span_bytes(spans, 2)});
}

// The bucket, whose shards are whole blocks, as packed: its elements are bytes.
static struct bucket bucket_packed(const struct bucket *bucket, size_t block, int bits)
{
    struct bucket packed = *bucket;
    assert(bucket->owner < 0 && bucket->shard_elements % block == 0);
    packed.count = quantize_bytes(bucket->count, block, bits);
    packed.shard_elements = quantize_bytes(bucket->shard_elements, block, bits);
    packed.padded_count = quantize_bytes(bucket->padded_count, block, bits);
    return packed;
}

int exchange_all_gather_quantized(const struct exchange *exchange, const struct bucket *bucket, const void *shard,
                                  void *full, enum dtype dtype, size_t block, void *packed)
{
    const struct bucket packed_bucket = bucket_packed(bucket, block, QUANTIZE_WEIGHT_BITS);
    int rank = comm_rank(exchange->comm);
    const struct pack_arguments own = {
        .values = (void *)(uintptr_t)shard,
        .dtype = dtype,
        .count = bucket_shard_real(bucket, rank),
        .block = block,
        .bits = QUANTIZE_WEIGHT_BITS,
        .packed = (unsigned char *)packed + bucket_shard_begin(&packed_bucket, rank),
    };
    struct pack_arguments all = own;
    all.values = full;
    all.count = bucket->count;
    all.packed = packed;
    TRY(issue_pack(exchange->executor, &own, false));
    TRY(exchange_all_gather(exchange, &packed_bucket, NULL, packed, DTYPE_BYTE));
    return issue_pack(exchange->executor, &all, true);
}
