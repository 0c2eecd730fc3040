// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/update_digest.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/optimizer/optimizer_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// A bucket has two digests: of its update after the decision, and of its speculative one.
enum { SURE, SPECULATED, ATTEMPTS };

// Those of one update. Operations write `buckets`; the issuing thread alone has the rest.
struct update_record {
    struct update_digest (*buckets)[ATTEMPTS];
    bool *committed;
};

struct update_digests {
    struct tier *tier;
    int bucket_count;
    uint64_t first;                 // t of records[0]
    struct update_record *records;  // an update without digests has null tables
    size_t count, capacity;
};

int update_digests_open(struct tier *tier, int bucket_count, struct update_digests **out)
{
    struct update_digests *digests = *out = calloc(1, sizeof *digests);
    if (!digests)
        return err_set(ERR_MEMORY, "no memory for the digests of updates");
    digests->tier = tier;
    digests->bucket_count = bucket_count;
    digests->first = 1;
    return ERR_NONE;
}

static void free_record(const struct update_digests *digests, struct update_record *record)
{
    tier_free(digests->tier, record->buckets);
    free(record->committed);
}

void update_digests_close(struct update_digests *digests)
{
    for (size_t i = 0; digests && i < digests->count; i++)
        free_record(digests, &digests->records[i]);
    if (digests)
        free(digests->records);
    free(digests);
}

void update_digests_forget(struct update_digests *digests, uint64_t t)
{
    size_t gone = 0;
    while (gone < digests->count && digests->first + gone <= t)
        free_record(digests, &digests->records[gone++]);
    digests->count -= gone;
    digests->first = digests->count > 0 || digests->first > t ? digests->first + gone : t + 1;
    if (digests->count > 0)
        memmove(digests->records, digests->records + gone, digests->count * sizeof *digests->records);
}

static int add_record(struct update_digests *digests)
{
    if (digests->count == digests->capacity) {
        size_t capacity = 2 * digests->capacity + 16;
        struct update_record *records = realloc(digests->records, capacity * sizeof *records);
        if (!records)
            return err_set(ERR_MEMORY, "no memory for the digests of %zu updates", capacity);
        digests->records = records;
        digests->capacity = capacity;
    }
    struct update_record *record = &digests->records[digests->count];
    size_t buckets = (size_t)digests->bucket_count + 1;
    record->committed = calloc(buckets, sizeof *record->committed);
    if (!record->committed)
        return err_set(ERR_MEMORY, "no memory for the digests of an update");
    TRY(tier_share(digests->tier, "digests of an update", buckets * sizeof *record->buckets,
                   (void **)&record->buckets));
    digests->count++;
    return ERR_NONE;
}

static struct update_record *record_of(const struct update_digests *digests, uint64_t t)
{
    assert(t >= digests->first && t - digests->first < digests->count);
    return &digests->records[t - digests->first];
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
        size_t bytes = i == DIGEST_PARAMETER ? dtype_bytes(a->optimizer->config->precision) : sizeof(float);
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
    while (o->digests->first + o->digests->count <= o->step)
        TRY(add_record(o->digests));
    struct update_record *record = record_of(o->digests, o->step);
    struct digest_arguments a = {
        o, bucket, from, count, *states, parameter, &record->buckets[bucket][speculative ? SPECULATED : SURE]};
    record->committed[bucket] = false;
    size_t bytes = count * sizeof(float);
    const struct executor_span spans[] = {
        {states->master, bytes, EXECUTOR_READ},
        {states->exp_avg, bytes, EXECUTOR_READ},
        {states->exp_avg_sq, bytes, EXECUTOR_READ},
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
    if (digests && t >= digests->first && t - digests->first < digests->count)
        record_of(digests, t)->committed[bucket] = true;
}

struct update_digest update_digest_read(const struct update_digests *digests, uint64_t t, int bucket)
{
    // Of shards without elements no update has left a record.
    if (t < digests->first || t - digests->first >= digests->count)
        return (struct update_digest){0};
    const struct update_record *record = record_of(digests, t);
    return record->buckets[bucket][record->committed[bucket] ? SPECULATED : SURE];
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
