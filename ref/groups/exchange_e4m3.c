// SPDX-License-Identifier: Apache-2.0
// A gather in E4M3: the largest magnitudes of all shards first, which are the scale, and then one byte an element.
#include "ref/groups/exchange_quantized.h"

#include "base/err.h"
#include "ref/partition/collectives.h"
#include "ref/recipe/e4m3.h"

enum { CHUNK = 1024 };

// values[count], their codes, the largest magnitude of this rank's shard, and those of all ranks.
struct code_arguments {
    void *values;
    enum dtype dtype;
    size_t count;
    unsigned char *codes;
    float *own;
    const float *all;
    int ranks;
};

static int run_amax(void *arguments)
{
    const struct code_arguments *a = arguments;
    float x[CHUNK];
    *a->own = 0.0f;
    for (size_t from = 0, length; from < a->count; from += length) {
        length = a->count - from < CHUNK ? a->count - from : CHUNK;
        dtype_widen(a->dtype, (const char *)a->values + from * dtype_bytes(a->dtype), x, length);
        *a->own = e4m3_larger(e4m3_amax(x, length), *a->own);
    }
    return ERR_NONE;
}

static float scale_of(const struct code_arguments *a)
{
    float largest = 0.0f;
    for (int rank = 0; rank < a->ranks; rank++)
        largest = e4m3_larger(a->all[rank], largest);
    return e4m3_scale(largest);
}

static int run_pack(void *arguments)
{
    const struct code_arguments *a = arguments;
    float x[CHUNK], scale = scale_of(a);
    for (size_t from = 0, length; from < a->count; from += length) {
        length = a->count - from < CHUNK ? a->count - from : CHUNK;
        dtype_widen(a->dtype, (const char *)a->values + from * dtype_bytes(a->dtype), x, length);
        e4m3_pack(x, length, scale, a->codes + from);
    }
    return ERR_NONE;
}

static int run_unpack(void *arguments)
{
    const struct code_arguments *a = arguments;
    float x[CHUNK], scale = scale_of(a);
    for (size_t from = 0, length; from < a->count; from += length) {
        length = a->count - from < CHUNK ? a->count - from : CHUNK;
        e4m3_unpack(a->codes + from, length, scale, x);
        dtype_narrow(a->dtype, x, (char *)a->values + from * dtype_bytes(a->dtype), length);
    }
    return ERR_NONE;
}

// A shard without elements has a largest magnitude, 0, and no codes.
static int issue(struct executor *executor, const char *name, int (*run)(void *), const struct code_arguments *a)
{
    bool amax = run == run_amax, unpack = run == run_unpack;
    const struct executor_span largest = {a->all, (size_t)a->ranks * sizeof(float), EXECUTOR_READ};
    const struct executor_span spans[] = {
        amax ? (struct executor_span){a->own, sizeof(float), EXECUTOR_WRITE} : largest,
        {a->values, a->count * dtype_bytes(a->dtype), unpack ? EXECUTOR_WRITE : EXECUTOR_READ},
        {a->codes, a->count, unpack ? EXECUTOR_READ : EXECUTOR_WRITE},
    };
    size_t used = a->count == 0 ? 1 : amax ? 2 : 3;
    if (a->count == 0 && !amax)
        return ERR_NONE;
    return executor_issue(executor, &(struct executor_operation){.name = name,
                                                                 .lane = LANE_COMPUTE,
                                                                 .run = run,
                                                                 .arguments = a,
                                                                 .arguments_bytes = sizeof *a,
                                                                 .spans = spans,
                                                                 .span_count = used,
                                                                 .work_bytes = executor_span_bytes(spans, used)});
}

size_t exchange_e4m3_bytes(const struct bucket *bucket, int ranks)
{
    return ((size_t)ranks + 1) * sizeof(float) + bucket->padded_count;
}

int exchange_all_gather_e4m3(const struct exchange *exchange, const struct bucket *bucket, const void *shard,
                             void *full, enum dtype dtype, void *memory)
{
    int rank = comm_rank(exchange->comm), ranks = comm_world(exchange->comm);
    float *all = memory;
    unsigned char *codes = (unsigned char *)(all + ranks + 1);
    size_t begin = bucket_shard_begin(bucket, rank);
    const struct code_arguments whole = {full, dtype, bucket->count, codes, all + ranks, all, ranks};
    struct code_arguments own = whole;
    own.values = shard ? (void *)(uintptr_t)shard : (char *)full + begin * dtype_bytes(dtype);
    own.count = bucket_shard_real(bucket, rank);
    own.codes = codes + begin;
    TRY(issue(exchange->executor, "largest of shard", run_amax, &own));
    TRY(exchange_numbers(exchange->executor, exchange->comm, own.own, all, sizeof *all));
    TRY(issue(exchange->executor, "quantize", run_pack, &own));
    TRY(exchange_all_gather(exchange, bucket, NULL, codes, DTYPE_BYTE));
    return issue(exchange->executor, "dequantize", run_unpack, &whole);
}
