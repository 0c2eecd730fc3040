// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/collectives.h"

#include "base/err.h"

#include <assert.h>

// One piece: elements [from, from + length) of every rank's shard. A dry run issues all pieces of a bucket as one.
struct piece_arguments {
    struct comm *comm;
    struct bucket bucket;  // not of an all-reduce
    size_t from, length;
    char *full;
    char *shard;  // this rank's, from its first element
    enum dtype dtype;
    size_t times;  // pieces
};

// A piece's elements of a shard that has `real` of them.
static size_t part_count(const struct piece_arguments *a, size_t real)
{
    size_t left = real > a->from ? real - a->from : 0;
    return left < a->length ? left : a->length;
}

static size_t own_count(const struct piece_arguments *a)
{
    return part_count(a, bucket_shard_real(&a->bucket, comm_rank(a->comm)));
}

// A piece's elements of all ranks together: those of the full shards, and of the one that may be cut short.
static size_t piece_count(const struct piece_arguments *a)
{
    const struct bucket *b = &a->bucket;
    if (b->owner >= 0)
        return part_count(a, b->shard_elements);
    return b->count / b->shard_elements * part_count(a, b->shard_elements) +
           part_count(a, b->count % b->shard_elements);
}

static void piece_lengths(const struct piece_arguments *a, size_t counts[], size_t offsets[])
{
    for (int rank = 0; rank < comm_world(a->comm); rank++) {
        counts[rank] = part_count(a, bucket_shard_real(&a->bucket, rank));
        offsets[rank] = bucket_shard_begin(&a->bucket, rank) + a->from;
    }
}

// Bytes that this rank sends for a piece: to every other rank its part, or its own part to every other rank.
static size_t scattered_bytes(const struct piece_arguments *a)
{
    return (piece_count(a) - own_count(a)) * dtype_bytes(a->dtype);
}

static size_t gathered_bytes(const struct piece_arguments *a)
{
    return (size_t)(comm_world(a->comm) - 1) * own_count(a) * dtype_bytes(a->dtype);
}

// Bytes of `count` elements that pass each rank when they go around in a ring.
static size_t passing_bytes(const struct piece_arguments *a, size_t count)
{
    double world = comm_world(a->comm);
    return (size_t)((double)(count * dtype_bytes(a->dtype)) * (world - 1) / world);
}

static void count_reduce_scatter(const void *arguments)
{
    const struct piece_arguments *a = arguments;
    comm_count(a->comm, PURPOSE_REDUCE, OPERATION_REDUCE_SCATTER, a->times, scattered_bytes(a));
}

static void count_all_gather(const void *arguments)
{
    const struct piece_arguments *a = arguments;
    comm_count(a->comm, PURPOSE_GATHER, OPERATION_ALL_GATHER, a->times, gathered_bytes(a));
}

static int run_reduce_scatter(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_count(a) == 0)
        return ERR_NONE;
    piece_lengths(a, counts, offsets);
    char *shard = a->shard + a->from * dtype_bytes(a->dtype);
    comm_count_as(a->comm, PURPOSE_REDUCE);
    int rc = comm_reduce_scatter(a->comm, a->full, shard, counts, offsets, a->dtype);
    comm_count_as(a->comm, PURPOSE_OTHER);
    return rc;
}

static int run_all_gather(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_count(a) == 0)
        return ERR_NONE;
    piece_lengths(a, counts, offsets);
    comm_count_as(a->comm, PURPOSE_GATHER);
    int rc = comm_all_gather(a->comm, a->shard + a->from * dtype_bytes(a->dtype), a->full, counts, offsets, a->dtype);
    comm_count_as(a->comm, PURPOSE_OTHER);
    return rc;
}

static size_t piece_length(const struct exchange *exchange, size_t bucket_elements, size_t shard_elements)
{
    size_t length = bucket_elements / (size_t)comm_world(exchange->comm);
    if (bucket_elements == 0 || length > shard_elements)
        return shard_elements;
    return length > 0 ? length : 1;
}

// The differences between the collectives that are cut into pieces.
struct collective {
    const char *name;
    int (*run)(void *arguments);
    size_t (*sent_bytes)(const struct piece_arguments *arguments);
    void (*count)(const void *arguments);
    enum executor_access full_access, shard_access;
};

static const struct collective reduce_scatter = {"reduce-scatter",     run_reduce_scatter, scattered_bytes,
                                                 count_reduce_scatter, EXECUTOR_READ,      EXECUTOR_WRITE};
static const struct collective all_gather = {"all-gather",     run_all_gather, gathered_bytes,
                                             count_all_gather, EXECUTOR_WRITE, EXECUTOR_READ};

static int issue_pieces(const struct exchange *exchange, const struct collective *collective, size_t bucket_elements,
                        const struct bucket *bucket, void *full, void *shard, enum dtype dtype)
{
    assert(full && shard && bucket->padded_count >= bucket->count);
    assert(bucket->owner < comm_world(exchange->comm));
    size_t length = piece_length(exchange, bucket_elements, bucket->shard_elements);
    size_t element_bytes = dtype_bytes(dtype);
    const struct executor_span spans[] = {
        {full, bucket->padded_count * element_bytes, collective->full_access},
        {shard, bucket_shard_room(bucket, comm_rank(exchange->comm)) * element_bytes, collective->shard_access},
    };
    size_t times = 1, longest = bucket_shard_real(bucket, bucket->owner < 0 ? 0 : bucket->owner);
    if (executor_is_dry(exchange->executor) && length > 0) {
        times = (longest + length - 1) / length;
        length = bucket->shard_elements;
    }
    for (size_t from = 0; from < longest; from += length) {
        struct piece_arguments a = {exchange->comm, *bucket, from, length, full, shard, dtype, times};
        TRY(executor_issue(exchange->executor,
                           &(struct executor_operation){.name = collective->name,
                                                        .lane = LANE_COLLECTIVE,
                                                        .run = collective->run,
                                                        .arguments = &a,
                                                        .arguments_bytes = sizeof a,
                                                        .spans = spans,
                                                        .span_count = 2,
                                                        .bytes = collective->sent_bytes(&a),
                                                        .count = collective->count,
                                                        .times = times,
                                                        .work_bytes = passing_bytes(&a, piece_count(&a)),
                                                        .ranks = comm_world(exchange->comm),
                                                        .stride = comm_stride(exchange->comm)}));
    }
    return ERR_NONE;
}

static void *own_shard(const struct exchange *exchange, const struct bucket *bucket, void *full, enum dtype dtype)
{
    return (char *)full + bucket_shard_begin(bucket, comm_rank(exchange->comm)) * dtype_bytes(dtype);
}

int exchange_reduce_scatter(const struct exchange *exchange, const struct bucket *bucket, void *full, void *shard,
                            enum dtype dtype)
{
    void *to = shard ? shard : own_shard(exchange, bucket, full, dtype);
    return issue_pieces(exchange, &reduce_scatter, exchange->reduce_bucket_elements, bucket, full, to, dtype);
}

int exchange_all_gather(const struct exchange *exchange, const struct bucket *bucket, const void *shard, void *full,
                        enum dtype dtype)
{
    // The cast drops const for the argument block alone; an all-gather reads its shard.
    void *from = shard ? (void *)(uintptr_t)shard : own_shard(exchange, bucket, full, dtype);
    return issue_pieces(exchange, &all_gather, exchange->gather_bucket_elements, bucket, full, from, dtype);
}

// A reduce-scatter and an all-gather, over shards as equal as they can be.
static size_t reduced_bytes(const struct piece_arguments *a)
{
    size_t world = (size_t)comm_world(a->comm), rank = (size_t)comm_rank(a->comm);
    size_t own = a->length / world + (rank < a->length % world);
    return (a->length - own + (world - 1) * own) * dtype_bytes(a->dtype);
}

static void count_all_reduce(const void *arguments)
{
    const struct piece_arguments *a = arguments;
    comm_count(a->comm, PURPOSE_REDUCE, OPERATION_ALL_REDUCE, a->times, a->times * reduced_bytes(a));
}

static int run_all_reduce(void *arguments)
{
    struct piece_arguments *a = arguments;
    char *at = a->full + a->from * dtype_bytes(a->dtype);
    comm_count_as(a->comm, PURPOSE_REDUCE);
    int rc = comm_all_reduce(a->comm, at, at, a->length, a->dtype, COMM_SUM);
    comm_count_as(a->comm, PURPOSE_OTHER);
    return rc;
}

int exchange_all_reduce(const struct exchange *exchange, void *memory, size_t count, enum dtype dtype)
{
    size_t limit = exchange->reduce_bucket_elements > 0 ? exchange->reduce_bucket_elements : count, times;
    for (size_t from = 0; from < count; from += times * limit) {
        size_t left = count - from;
        // The last piece may be shorter than those before it.
        times = executor_is_dry(exchange->executor) && left >= limit ? left / limit : 1;
        struct piece_arguments a = {exchange->comm, {0}, from, left < limit ? left : limit, memory, NULL, dtype, times};
        struct executor_span span = {(char *)memory + from * dtype_bytes(dtype), times * a.length * dtype_bytes(dtype),
                                     EXECUTOR_READ_WRITE};
        TRY(executor_issue(exchange->executor, &(struct executor_operation){
                                                   .name = "all-reduce",
                                                   .lane = LANE_COLLECTIVE,
                                                   .run = run_all_reduce,
                                                   .arguments = &a,
                                                   .arguments_bytes = sizeof a,
                                                   .spans = &span,
                                                   .span_count = 1,
                                                   .bytes = times * reduced_bytes(&a),
                                                   .count = count_all_reduce,
                                                   .times = times,
                                                   .work_bytes = 2 * times * passing_bytes(&a, a.length),
                                                   .ranks = comm_world(exchange->comm),
                                                   .stride = comm_stride(exchange->comm),
                                               }));
    }
    return ERR_NONE;
}

struct numbers_arguments {
    struct comm *comm;
    const void *own;
    void *all;
    size_t bytes;  // of each rank
};

static size_t numbers_sent_bytes(const struct numbers_arguments *a)
{
    return (size_t)(comm_world(a->comm) - 1) * a->bytes;
}

static void count_numbers(const void *arguments)
{
    const struct numbers_arguments *a = arguments;
    comm_count(a->comm, PURPOSE_OTHER, OPERATION_ALL_GATHER, 1, numbers_sent_bytes(a));
}

static int run_numbers(void *arguments)
{
    struct numbers_arguments *a = arguments;
    return comm_all_gather_equal(a->comm, a->own, a->all, a->bytes);
}

int exchange_numbers(struct executor *executor, struct comm *comm, const void *own, void *all, size_t bytes)
{
    struct numbers_arguments a = {comm, own, all, bytes};
    const struct executor_span spans[] = {{own, bytes, EXECUTOR_READ},
                                          {all, (size_t)comm_world(comm) * bytes, EXECUTOR_WRITE}};
    return executor_issue(executor, &(struct executor_operation){.name = "numbers",
                                                                 .lane = LANE_COLLECTIVE,
                                                                 .run = run_numbers,
                                                                 .arguments = &a,
                                                                 .arguments_bytes = sizeof a,
                                                                 .spans = spans,
                                                                 .span_count = 2,
                                                                 .count = count_numbers,
                                                                 .work_bytes = numbers_sent_bytes(&a)});
}
