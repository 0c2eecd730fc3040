// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/exchange.h"

#include "base/err.h"

#include <string.h>

// One piece: elements [from, from + length) of every rank's share. When nothing is run, all pieces of a bundle at once.
struct piece_arguments {
    struct comm *comm;
    const struct bundle *bundle;
    size_t from, length;
    char *whole;
    char *share;  // this rank's, from its first element
    enum dtype dtype;
    size_t times;  // pieces
};

// A piece's elements of a share that has `real` of them.
static size_t part_count(const struct piece_arguments *a, size_t real)
{
    size_t left = real > a->from ? real - a->from : 0;
    return left < a->length ? left : a->length;
}

static size_t own_count(const struct piece_arguments *a)
{
    return part_count(a, bundle_share_real(a->bundle, comm_rank(a->comm)));
}

// A piece's elements of all ranks together: so many shares are full, and one may be in part.
static size_t piece_count(const struct piece_arguments *a)
{
    const struct bundle *b = a->bundle;
    if (b->owner >= 0)
        return part_count(a, b->share_count);
    return b->count / b->share_count * part_count(a, b->share_count) + part_count(a, b->count % b->share_count);
}

static void piece_lengths(const struct piece_arguments *a, size_t counts[], size_t offsets[])
{
    for (int rank = 0; rank < comm_world(a->comm); rank++) {
        counts[rank] = part_count(a, bundle_share_real(a->bundle, rank));
        offsets[rank] = bundle_share_begin(a->bundle, rank) + a->from;
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
    ledger_send_all(comm_ledger(a->comm), PURPOSE_REDUCE, OPERATION_REDUCE_SCATTER, a->times, scattered_bytes(a));
}

static void count_all_gather(const void *arguments)
{
    const struct piece_arguments *a = arguments;
    ledger_send_all(comm_ledger(a->comm), PURPOSE_GATHER, OPERATION_ALL_GATHER, a->times, gathered_bytes(a));
}

static int run_reduce_scatter(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_count(a) == 0)
        return ERR_NONE;
    piece_lengths(a, counts, offsets);
    char *share = a->share + a->from * dtype_bytes(a->dtype);
    comm_count_as(a->comm, PURPOSE_REDUCE);
    int rc = comm_reduce_scatter_at(a->comm, a->whole, offsets, share, counts, a->dtype);
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
    int rc = comm_all_gather(a->comm, a->share + a->from * dtype_bytes(a->dtype), a->whole, counts, offsets, a->dtype);
    comm_count_as(a->comm, PURPOSE_OTHER);
    return rc;
}

static size_t piece_length(const struct exchange *exchange, size_t bucket_count, size_t share_count)
{
    size_t length = bucket_count / (size_t)comm_world(exchange->comm);
    if (bucket_count == 0 || length > share_count)
        return share_count;
    return length > 0 ? length : 1;
}

// What differs between the collectives that are cut in pieces.
struct collective {
    const char *name;
    int (*run)(void *arguments);
    size_t (*sent_bytes)(const struct piece_arguments *arguments);
    void (*count)(const void *arguments);
    enum flow_access whole_access, share_access;
};

static const struct collective reduce_scatter = {"reduce-scatter", run_reduce_scatter, scattered_bytes,
                                                 count_reduce_scatter, FLOW_READ, FLOW_WRITE};
static const struct collective all_gather = {"all-gather", run_all_gather, gathered_bytes, count_all_gather,
                                             FLOW_WRITE, FLOW_READ};

static int issue_pieces(const struct exchange *exchange, const struct collective *collective, size_t bucket_count,
                        const struct bundle *bundle, void *whole, void *share, enum dtype dtype)
{
    size_t length = piece_length(exchange, bucket_count, bundle->share_count);
    size_t element_bytes = dtype_bytes(dtype);
    const struct flow_span spans[] = {
        {whole, bundle->padded_count * element_bytes, collective->whole_access},
        {share, bundle_share_room(bundle, comm_rank(exchange->comm)) * element_bytes, collective->share_access},
    };
    size_t times = 1;
    if (flow_is_dry(exchange->flow) && length > 0) {
        times = (bundle->share_count + length - 1) / length;
        length = bundle->share_count;
    }
    for (size_t from = 0; from < bundle->share_count; from += length) {
        struct piece_arguments a = {exchange->comm, bundle, from, length, whole, share, dtype, times};
        TRY(flow_issue(exchange->flow, &(struct flow_operation){.name = collective->name,
                                                                .lane = LANE_COLLECTIVE,
                                                                .run = collective->run,
                                                                .arguments = &a,
                                                                .arguments_bytes = sizeof a,
                                                                .spans = spans,
                                                                .span_count = 2,
                                                                .bytes = collective->sent_bytes(&a),
                                                                .count = collective->count,
                                                                .times = times,
                                                                .work_bytes = passing_bytes(&a, piece_count(&a))}));
    }
    return ERR_NONE;
}

static void *own_share(const struct exchange *exchange, const struct bundle *bundle, void *whole, enum dtype dtype)
{
    return (char *)whole + bundle_share_begin(bundle, comm_rank(exchange->comm)) * dtype_bytes(dtype);
}

int exchange_reduce_scatter(const struct exchange *exchange, const struct bundle *bundle, void *whole, void *share,
                            enum dtype dtype)
{
    void *to = share ? share : own_share(exchange, bundle, whole, dtype);
    return issue_pieces(exchange, &reduce_scatter, exchange->reduce_bucket_count, bundle, whole, to, dtype);
}

int exchange_all_gather(const struct exchange *exchange, const struct bundle *bundle, const void *share, void *whole,
                        enum dtype dtype)
{
    // The cast drops const for the argument block alone; an all-gather reads its share.
    void *from = share ? (void *)(uintptr_t)share : own_share(exchange, bundle, whole, dtype);
    return issue_pieces(exchange, &all_gather, exchange->gather_bucket_count, bundle, whole, from, dtype);
}

// A reduce-scatter and an all-gather, over shares as equal as they can be.
static size_t reduced_bytes(const struct piece_arguments *a)
{
    size_t world = (size_t)comm_world(a->comm), rank = (size_t)comm_rank(a->comm);
    size_t own = a->length / world + (rank < a->length % world);
    return (a->length - own + (world - 1) * own) * dtype_bytes(a->dtype);
}

static void count_all_reduce(const void *arguments)
{
    const struct piece_arguments *a = arguments;
    ledger_send_all(comm_ledger(a->comm), PURPOSE_REDUCE, OPERATION_ALL_REDUCE, a->times,
                    a->times * reduced_bytes(a));
}

static int run_all_reduce(void *arguments)
{
    struct piece_arguments *a = arguments;
    char *at = a->whole + a->from * dtype_bytes(a->dtype);
    comm_count_as(a->comm, PURPOSE_REDUCE);
    int rc = comm_all_reduce(a->comm, at, at, a->length, a->dtype, COMM_SUM);
    comm_count_as(a->comm, PURPOSE_OTHER);
    return rc;
}

int exchange_all_reduce(const struct exchange *exchange, const struct bundle *bundle, void *whole, enum dtype dtype)
{
    size_t limit = exchange->reduce_bucket_count > 0 ? exchange->reduce_bucket_count : bundle->count, times;
    for (size_t from = 0; from < bundle->count; from += times * limit) {
        size_t left = bundle->count - from;
        // The last piece may be shorter than those before it.
        times = flow_is_dry(exchange->flow) && left >= limit ? left / limit : 1;
        struct piece_arguments a = {exchange->comm, bundle, from, left < limit ? left : limit, whole, NULL, dtype,
                                    times};
        struct flow_span span = {(char *)whole + from * dtype_bytes(dtype), times * a.length * dtype_bytes(dtype),
                                 FLOW_READ_WRITE};
        TRY(flow_issue(exchange->flow, &(struct flow_operation){
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
                                       }));
    }
    return ERR_NONE;
}
