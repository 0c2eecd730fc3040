// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/update_digest.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/optimizer/optimizer_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

// A bucket has two digests: of its update after the decision, and of its speculative one.
enum { SURE, SPECULATED, ATTEMPTS };

// Those of BLOCK updates. Operations write `digests`; the issuing thread alone has the rest.
enum { BLOCK = 256 };
struct update_block {
    struct update_digest (*digests)[ATTEMPTS];  // [BLOCK][bucket_count]
    bool *committed;                            // the same
};

struct update_digests {
    struct tier *tier;
    size_t bucket_count;
    uint64_t first;  // t of the first update in blocks[0]
    struct update_block *blocks;
    size_t count;
};

int update_digests_open(struct tier *tier, int bucket_count, struct update_digests **out)
{
    struct update_digests *digests = *out = calloc(1, sizeof *digests);
    if (!digests)
        return err_set(ERR_MEMORY, "no memory for the digests of updates");
    digests->tier = tier;
    digests->bucket_count = (size_t)bucket_count;
    digests->first = 1;
    return ERR_NONE;
}

void update_digests_forget(struct update_digests *digests, uint64_t t)
{
    for (size_t i = 0; i < digests->count; i++) {
        tier_free(digests->tier, digests->blocks[i].digests);
        free(digests->blocks[i].committed);
    }
    free(digests->blocks);
    digests->blocks = NULL;
    digests->count = 0;
    digests->first = t + 1;
}

void update_digests_close(struct update_digests *digests)
{
    if (digests)
        update_digests_forget(digests, 0);
    free(digests);
}

static int add_block(struct update_digests *digests)
{
    size_t entries = BLOCK * digests->bucket_count + 1;
    struct update_block *blocks = realloc(digests->blocks, (digests->count + 1) * sizeof *blocks);
    if (!blocks)
        return err_set(ERR_MEMORY, "no memory for the digests of updates");
    digests->blocks = blocks;
    struct update_block *block = &blocks[digests->count];
    block->committed = calloc(entries, sizeof *block->committed);
    if (!block->committed)
        return err_set(ERR_MEMORY, "no memory for the digests of updates");
    int code =
        tier_share(digests->tier, "digests of updates", entries * sizeof *block->digests, (void **)&block->digests);
    if (code != ERR_NONE)
        free(block->committed);
    digests->count += code == ERR_NONE;
    return code;
}

// The place of a bucket's update t; null: there is none.
static struct update_block *find_block(const struct update_digests *digests, uint64_t t, int bucket, size_t *at)
{
    if (t < digests->first || (t - digests->first) / BLOCK >= digests->count)
        return NULL;
    *at = (t - digests->first) % BLOCK * digests->bucket_count + (size_t)bucket;
    return &digests->blocks[(t - digests->first) / BLOCK];
}

static int hash_bytes(const void *memory, size_t bytes, uint64_t place, uint64_t *sum)
{
    if (!accelerator_of(memory)) {
        *sum += XXH3_64bits_withSeed(memory, bytes, place);
        return ERR_NONE;
    }
    void *copy = malloc(bytes);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a digest of %zu bytes on the device", bytes);
    int code = bytes_copy(copy, memory, bytes);
    if (code == ERR_NONE)
        *sum += XXH3_64bits_withSeed(copy, bytes, place);
    free(copy);
    return code;
}

// Adds the hashes of the parameters' pieces in elements [from, from + count) of a shard, which begin at `values`.
static int add_range(const struct optimizer *o, int bucket, size_t from, size_t count, const void *values,
                     size_t element_bytes, uint64_t *sum)
{
    struct piece piece;
    for (int next = 0; bucket_next_piece(o->layout, o->model, bucket, o->placements[bucket].shard, &next, &piece);) {
        size_t begin = piece.shard_index > from ? piece.shard_index : from;
        size_t piece_end = piece.shard_index + piece.count, end = from + count;
        end = end < piece_end ? end : piece_end;
        if (begin < end)
            TRY(hash_bytes((const char *)values + (begin - from) * element_bytes, (end - begin) * element_bytes, begin,
                           sum));
    }
    return ERR_NONE;
}

enum dtype update_digest_dtype(const struct config *config, enum update_digest_of of)
{
    return of == DIGEST_PARAMETER ? config->precision
           : of == DIGEST_MASTER  ? config->master_dtype
                                  : config->moment_dtype;
}

struct digest_arguments {
    const struct optimizer *optimizer;
    int bucket;
    size_t from, count;
    struct adam_states states;
    const void *parameter;
    struct update_digest *out;
};

static int run_digest(void *arguments)
{
    const struct digest_arguments *a = arguments;
    const void *const values[] = {
        [DIGEST_MASTER] = a->states.master,
        [DIGEST_EXP_AVG] = a->states.exp_avg,
        [DIGEST_EXP_AVG_SQ] = a->states.exp_avg_sq,
        [DIGEST_PARAMETER] = a->parameter,
    };
    if (a->from == 0)
        *a->out = (struct update_digest){0};
    for (int i = 0; i < UPDATE_DIGEST_COUNT; i++) {
        size_t bytes = dtype_bytes(update_digest_dtype(a->optimizer->config, (enum update_digest_of)i));
        if (values[i])
            TRY(add_range(a->optimizer, a->bucket, a->from, a->count, values[i], bytes, &a->out->of[i]));
    }
    return ERR_NONE;
}

int update_digest_issue(struct optimizer *o, int bucket, size_t from, size_t count, bool speculative,
                        const struct adam_states *states, const void *parameter)
{
    if (!o->digests)
        return ERR_NONE;
    size_t at;
    struct update_block *block;
    assert(o->step >= o->digests->first);
    while (!(block = find_block(o->digests, o->step, bucket, &at)))
        TRY(add_block(o->digests));
    struct digest_arguments a = {
        o, bucket, from, count, *states, parameter, &block->digests[at][speculative ? SPECULATED : SURE]};
    block->committed[at] = false;
    size_t master_bytes = count * dtype_bytes(o->config->master_dtype);
    size_t moment_bytes = count * dtype_bytes(o->config->moment_dtype);
    const struct executor_span spans[] = {
        {states->master, master_bytes, EXECUTOR_READ},
        {states->exp_avg, moment_bytes, EXECUTOR_READ},
        {states->exp_avg_sq, states->exp_avg_sq ? moment_bytes : 0, EXECUTOR_READ},
        {parameter, parameter ? count * dtype_bytes(o->config->precision) : 0, EXECUTOR_READ},
        {a.out, sizeof *a.out, EXECUTOR_READ_WRITE},
    };
    bool on_device = optimizer_tier(&o->placements[bucket]) == TIER_DEVICE;
    return executor_issue(o->move.executor, &(struct executor_operation){.name = OPTIMIZER_DIGEST,
                                                                         .lane = on_device ? LANE_COMPUTE : LANE_CPU,
                                                                         .run = run_digest,
                                                                         .arguments = &a,
                                                                         .arguments_bytes = sizeof a,
                                                                         .spans = spans,
                                                                         .span_count = 5});
}

void update_digest_commit(struct update_digests *digests, uint64_t t, int bucket)
{
    size_t at;
    struct update_block *block = digests ? find_block(digests, t, bucket, &at) : NULL;
    if (block)
        block->committed[at] = true;
}

struct update_digest update_digest_read(const struct update_digests *digests, uint64_t t, int bucket)
{
    size_t at;
    const struct update_block *block = find_block(digests, t, bucket, &at);
    // Of shards without elements no update leaves a digest.
    return block ? block->digests[at][block->committed[at] ? SPECULATED : SURE] : (struct update_digest){0};
}

uint64_t update_digest_expect(const struct optimizer *o, int bucket, const void *shard, size_t element_bytes)
{
    size_t count = bucket_shard_real(&o->layout->buckets[bucket], o->placements[bucket].shard);
    size_t length = optimizer_sub_group_count(o, bucket);
    uint64_t sum = 0;
    for (size_t from = 0; from < count; from += length) {
        size_t part = count - from < length ? count - from : length;
        int code = add_range(o, bucket, from, part, (const char *)shard + from * element_bytes, element_bytes, &sum);
        assert(code == ERR_NONE);
        (void)code;
    }
    return sum;
}
