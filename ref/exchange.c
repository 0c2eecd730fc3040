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
        offsets[rank] = (size_t)rank * a->bundle->share_count + a->from;
        total += counts[rank];
    }
    return total;
}

static int run_reduce_scatter(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_lengths(a, counts, offsets) == 0)
        return ERR_NONE;
    char *share = a->share + a->from * dtype_bytes(a->dtype);
    return comm_reduce_scatter_at(a->comm, a->whole, offsets, share, counts, a->dtype);
}

static int run_all_gather(void *arguments)
{
    struct piece_arguments *a = arguments;
    size_t counts[comm_world(a->comm)], offsets[comm_world(a->comm)];
    if (piece_lengths(a, counts, offsets) == 0)
        return ERR_NONE;
    return comm_all_gather(a->comm, a->share + a->from * dtype_bytes(a->dtype), a->whole, counts, offsets, a->dtype);
}

static size_t piece_length(const struct exchange *exchange, size_t bucket_count, size_t share_count)
{
    size_t length = bucket_count / (size_t)comm_world(exchange->comm);
    if (bucket_count == 0 || length > share_count)
        return share_count;
    return length > 0 ? length : 1;
}

static int issue_pieces(const struct exchange *exchange, const char *name, int (*run)(void *), size_t bucket_count,
                        const struct bundle *bundle, void *whole, void *share, enum dtype dtype,
                        enum flow_access whole_access, enum flow_access share_access)
{
    size_t length = piece_length(exchange, bucket_count, bundle->share_count);
    size_t element_bytes = dtype_bytes(dtype);
    const struct flow_span spans[] = {
        {whole, bundle->padded_count * element_bytes, whole_access},
        {share, bundle->share_count * element_bytes, share_access},
    };
    for (size_t from = 0; from < bundle->share_count; from += length) {
        struct piece_arguments a = {exchange->comm, bundle, from, length, whole, share, dtype};
        TRY(flow_issue(exchange->flow,
                       &(struct flow_operation){name, LANE_COLLECTIVE, run, &a, sizeof a, spans, 2}));
    }
    return ERR_NONE;
}

static void *own_share(const struct exchange *exchange, const struct bundle *bundle, void *whole, enum dtype dtype)
{
    return (char *)whole + (size_t)comm_rank(exchange->comm) * bundle->share_count * dtype_bytes(dtype);
}

int exchange_reduce_scatter(const struct exchange *exchange, const struct bundle *bundle, void *whole, void *share,
                            enum dtype dtype)
{
    void *to = share ? share : own_share(exchange, bundle, whole, dtype);
    return issue_pieces(exchange, "reduce-scatter", run_reduce_scatter, exchange->reduce_bucket_count, bundle, whole,
                        to, dtype, FLOW_READ, FLOW_WRITE);
}

int exchange_all_gather(const struct exchange *exchange, const struct bundle *bundle, const void *share, void *whole,
                        enum dtype dtype)
{
    // The cast drops const for the argument block alone; an all-gather reads its share.
    void *from = share ? (void *)(uintptr_t)share : own_share(exchange, bundle, whole, dtype);
    return issue_pieces(exchange, "all-gather", run_all_gather, exchange->gather_bucket_count, bundle, whole, from,
                        dtype, FLOW_WRITE, FLOW_READ);
}

static int run_all_reduce(void *arguments)
{
    struct piece_arguments *a = arguments;
    char *at = a->whole + a->from * dtype_bytes(a->dtype);
    return comm_all_reduce(a->comm, at, at, a->length, a->dtype, COMM_SUM);
}

int exchange_all_reduce(const struct exchange *exchange, const struct bundle *bundle, void *whole, enum dtype dtype)
{
    size_t limit = exchange->reduce_bucket_count > 0 ? exchange->reduce_bucket_count : bundle->count;
    for (size_t from = 0; from < bundle->count; from += limit) {
        size_t left = bundle->count - from;
        struct piece_arguments a = {exchange->comm, bundle, from, left < limit ? left : limit, whole, NULL, dtype};
        struct flow_span span = {(char *)whole + from * dtype_bytes(dtype), a.length * dtype_bytes(dtype),
                                 FLOW_READ_WRITE};
        TRY(flow_issue(exchange->flow, &(struct flow_operation){"all-reduce", LANE_COLLECTIVE, run_all_reduce, &a,
                                                                sizeof a, &span, 1}));
    }
    return ERR_NONE;
}

struct cast_arguments {
    const void *from;
    void *to;
    enum dtype from_dtype, to_dtype;
    size_t count;
    bool add;
};

static int run_cast(void *arguments)
{
    struct cast_arguments *a = arguments;
    if (a->add)
        dtype_accumulate(a->to_dtype, a->to, a->from_dtype, a->from, a->count);
    else if (a->from_dtype == a->to_dtype)
        memcpy(a->to, a->from, a->count * dtype_bytes(a->to_dtype));
    else if (a->from_dtype == DTYPE_FP32)
        dtype_narrow(a->to_dtype, a->from, a->to, a->count);
    else
        dtype_widen(a->from_dtype, a->from, a->to, a->count);
    return ERR_NONE;
}

int exchange_cast(const struct exchange *exchange, const void *from, enum dtype from_dtype, void *to,
                  enum dtype to_dtype, size_t count, bool add)
{
    if (from_dtype != to_dtype && from_dtype != DTYPE_FP32 && to_dtype != DTYPE_FP32)
        return err_set(ERR_INTERNAL, "no conversion from %s to %s", dtype_name(from_dtype), dtype_name(to_dtype));
    if (count == 0)
        return ERR_NONE;
    struct cast_arguments a = {from, to, from_dtype, to_dtype, count, add};
    const struct flow_span spans[] = {{from, count * dtype_bytes(from_dtype), FLOW_READ},
                                      {to, count * dtype_bytes(to_dtype), add ? FLOW_READ_WRITE : FLOW_WRITE}};
    return flow_issue(exchange->flow, &(struct flow_operation){add ? "accumulate" : "cast", LANE_COMPUTE, run_cast, &a,
                                                               sizeof a, spans, 2});
}
