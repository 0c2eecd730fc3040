// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include "err.h"

#include <string.h>

// One piece: elements [from, from + length) of every rank's share.
struct piece_arguments {
    struct comm *comm;
    const struct bundle *bundle;
    size_t from, length;
    char *whole;
    char *share;  // this rank's, from its first element
    enum dtype dtype;
};

static size_t piece_lengths(const struct piece_arguments *a, size_t counts[], size_t offsets[])
{
    size_t total = 0;
    for (int rank = 0; rank < comm_world(a->comm); rank++) {
        size_t real = bundle_share_real(a->bundle, rank);
        size_t left = real > a->from ? real - a->from : 0;
        counts[rank] = left < a->length ? left : a->length;
        offsets[rank] = bundle_share_begin(a->bundle, rank) + a->from;
        total += counts[rank];
    }
    return total;
}

// Bytes that this rank sends for a piece: to every other rank its part, or its own part to every other rank.
static size_t scattered_bytes(const struct piece_arguments *a)
{
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    return (piece_lengths(a, counts, offsets) - counts[comm_rank(a->comm)]) * dtype_bytes(a->dtype);
}

static size_t gathered_bytes(const struct piece_arguments *a)
{
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    piece_lengths(a, counts, offsets);
    return (size_t)(comm_world(a->comm) - 1) * counts[comm_rank(a->comm)] * dtype_bytes(a->dtype);
}

static int run_reduce_scatter(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_lengths(a, counts, offsets) == 0)
        return ERR_NONE;
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
    if (piece_lengths(a, counts, offsets) == 0)
        return ERR_NONE;
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
    enum flow_access whole_access, share_access;
};

static const struct collective reduce_scatter = {"reduce-scatter", run_reduce_scatter, scattered_bytes, FLOW_READ,
                                                 FLOW_WRITE};
static const struct collective all_gather = {"all-gather", run_all_gather, gathered_bytes, FLOW_WRITE, FLOW_READ};

static int issue_pieces(const struct exchange *exchange, const struct collective *collective, size_t bucket_count,
                        const struct bundle *bundle, void *whole, void *share, enum dtype dtype)
{
    size_t length = piece_length(exchange, bucket_count, bundle->share_count);
    size_t element_bytes = dtype_bytes(dtype);
    const struct flow_span spans[] = {
        {whole, bundle->padded_count * element_bytes, collective->whole_access},
        {share, bundle_share_room(bundle, comm_rank(exchange->comm)) * element_bytes, collective->share_access},
    };
    for (size_t from = 0; from < bundle->share_count; from += length) {
        struct piece_arguments a = {exchange->comm, bundle, from, length, whole, share, dtype};
        TRY(flow_issue(exchange->flow, &(struct flow_operation){.name = collective->name,
                                                                .lane = LANE_COLLECTIVE,
                                                                .run = collective->run,
                                                                .arguments = &a,
                                                                .arguments_bytes = sizeof a,
                                                                .spans = spans,
                                                                .span_count = 2,
                                                                .bytes = collective->sent_bytes(&a)}));
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
    size_t limit = exchange->reduce_bucket_count > 0 ? exchange->reduce_bucket_count : bundle->count;
    for (size_t from = 0; from < bundle->count; from += limit) {
        size_t left = bundle->count - from;
        struct piece_arguments a = {exchange->comm, bundle, from, left < limit ? left : limit, whole, NULL, dtype};
        struct flow_span span = {(char *)whole + from * dtype_bytes(dtype), a.length * dtype_bytes(dtype),
                                 FLOW_READ_WRITE};
        TRY(flow_issue(exchange->flow, &(struct flow_operation){.name = "all-reduce",
                                                                .lane = LANE_COLLECTIVE,
                                                                .run = run_all_reduce,
                                                                .arguments = &a,
                                                                .arguments_bytes = sizeof a,
                                                                .spans = &span,
                                                                .span_count = 1,
                                                                .bytes = 2 * span.bytes *
                                                                         (size_t)(comm_world(exchange->comm) - 1) /
                                                                         (size_t)comm_world(exchange->comm)}));
    }
    return ERR_NONE;
}
