// SPDX-License-Identifier: Apache-2.0
// The parts of a collective that do not depend on the transport: its signature, its shards, its reduction.
#include "ref/comm/comm_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL  // counts are few
#include <xxhash.h>

const char *comm_operation_name(enum comm_operation operation)
{
    static const char *const names[] = {
        [COMM_ALL_TO_ALL] = "all-to-all", [COMM_REDUCE_SCATTER] = "reduce-scatter", [COMM_ALL_GATHER] = "all-gather",
        [COMM_ALL_REDUCE] = "all-reduce", [COMM_BROADCAST] = "broadcast",           [COMM_BARRIER] = "barrier",
    };
    return names[operation];
}

void comm_call_sign(struct comm_call *call, uint64_t sequence, int world)
{
    bool shared = call->operation == COMM_REDUCE_SCATTER || call->operation == COMM_ALL_GATHER;
    call->signature = (struct comm_signature){
        .sequence = sequence,
        .count = call->operation == COMM_ALL_TO_ALL ? 0 : call->count,
        .shards_digest = shared ? XXH3_64bits(call->counts, (size_t)world * sizeof call->counts[0]) : 0,
        .operation = call->operation,
        .dtype = call->dtype,
        .reduction = call->reduction,
        .root = (uint32_t)call->root,
        .group = (uint64_t)call->group,
    };
}

static void add_group(const struct comm_signature *s, char *text, size_t text_bytes)
{
    size_t used = strlen(text);
    if (s->group > 0)
        snprintf(text + used, text_bytes - used, " in groups of %" PRIu64, s->group);
}

void comm_signature_text(const struct comm_signature *s, char *text, size_t text_bytes)
{
    const char *name = comm_operation_name(s->operation), *dtype = dtype_name(s->dtype);
    switch ((enum comm_operation)s->operation) {
    case COMM_ALL_TO_ALL:
        snprintf(text, text_bytes, "%s of %s", name, dtype);
        break;
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_GATHER:
        snprintf(text, text_bytes, "%s of %" PRIu64 " %s in shards with digest %08" PRIx64, name, s->count, dtype,
                 s->shards_digest >> 32);
        break;
    case COMM_ALL_REDUCE:
        snprintf(text, text_bytes, "%s (%s) of %" PRIu64 " %s", name, s->reduction == COMM_MAX ? "maximum" : "sum",
                 s->count, dtype);
        break;
    case COMM_BROADCAST:
        snprintf(text, text_bytes, "%s of %" PRIu64 " bytes from rank %u", name, s->count, s->root);
        break;
    case COMM_BARRIER:
        snprintf(text, text_bytes, "%s", name);
        break;
    }
    add_group(s, text, text_bytes);
}

void comm_message_text(const struct comm *comm, const struct comm_message *expected,
                       const struct comm_message_kind *sent, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes,
             "rank %d expects message %" PRIu64 " of %" PRIu64 " bytes from rank %d, which sends message %" PRIu64
             " of %" PRIu64 " bytes",
             comm->rank, expected->kind.tag, expected->kind.bytes, expected->peer, sent->tag, sent->bytes);
}

size_t comm_shard(size_t count, int world, int rank, size_t *offset)
{
    assert(world > 0 && rank >= 0 && rank < world);
    size_t each = count / (size_t)world, larger = count % (size_t)world, index = (size_t)rank;
    *offset = index * each + (index < larger ? index : larger);
    return each + (index < larger);
}

struct comm_transfer comm_transfer_of(const struct comm_call *call, int rank, int to, int from)
{
    size_t bytes = dtype_bytes(call->dtype);
    const char *send = call->send;
    char *recv = call->recv;
    if (call->operation == COMM_ALL_TO_ALL)
        return (struct comm_transfer){send + call->offsets[to] * bytes, recv + call->recv_offsets[from] * bytes,
                                      call->counts[to] * bytes, call->recv_counts[from] * bytes};
    return (struct comm_transfer){send, recv + call->offsets[from] * bytes, call->counts[rank] * bytes,
                                  call->counts[from] * bytes};
}

size_t comm_largest_shard(const size_t counts[], int world)
{
    size_t largest = 0;
    for (int rank = 0; rank < world; rank++)
        largest = counts[rank] > largest ? counts[rank] : largest;
    return largest;
}

size_t comm_piece_length(const struct comm_pieces *p, int rank, size_t k)
{
    size_t count = p->counts[rank], at = k * p->piece_count;
    if (at >= count)
        return 0;
    return count - at < p->piece_count ? count - at : p->piece_count;
}

const char *comm_piece_in_send(const struct comm_pieces *p, int rank, size_t k)
{
    return (const char *)p->call->send + (p->offsets[rank] + k * p->piece_count) * p->element_bytes;
}

struct comm_call comm_gather_after(const struct comm_call *call, int world, int rank, size_t counts[], size_t offsets[])
{
    struct comm_call gather = *call;
    for (int owner = 0; owner < world; owner++)
        counts[owner] = comm_shard(call->count, world, owner, &offsets[owner]);
    gather.operation = COMM_ALL_GATHER;
    gather.send = (char *)call->recv + offsets[rank] * dtype_bytes(call->dtype);
    gather.counts = counts;
    gather.offsets = offsets;
    return gather;
}

static float element_value(enum dtype dtype, const char *element)
{
    struct bf16 bf16;
    struct fp16 fp16;
    float fp32;
    switch (dtype) {
    case DTYPE_FP32:
        memcpy(&fp32, element, sizeof fp32);
        return fp32;
    case DTYPE_BF16:
        memcpy(&bf16, element, sizeof bf16);
        return bf16_to_f32(bf16);
    case DTYPE_FP16:
        memcpy(&fp16, element, sizeof fp16);
        return fp16_to_f32(fp16);
    case DTYPE_BYTE:
        break;
    }
    return (float)*(const unsigned char *)element;
}

// Meant for maxima of a few numbers, such as an overflow check's. A later rank wins only if its value is greater or the
// first NaN. Reads an element of every rank before it writes the result, so out may be one of in[].
static void fold_max(enum dtype dtype, const void *const in[], int world, void *out, size_t count)
{
    size_t element_bytes = dtype_bytes(dtype);
    for (size_t at = 0; at < count * element_bytes; at += element_bytes) {
        const char *best = (const char *)in[0] + at;
        float best_value = element_value(dtype, best);
        for (int rank = 1; rank < world; rank++) {
            const char *other = (const char *)in[rank] + at;
            float value = element_value(dtype, other);
            if (!isnan(best_value) && !(value <= best_value)) {
                best = other;
                best_value = value;
            }
        }
        memmove((char *)out + at, best, element_bytes);
    }
}

void comm_fold(const struct comm_call *call, const void *const in[], int world, void *out, size_t count)
{
    assert(world > 0);
    if (call->reduction == COMM_MAX)
        fold_max(call->dtype, in, world, out, count);
    else if (call->group > 0)
        dtype_fold_groups(call->dtype, in, world, call->group, call->dtype, out, count);
    else
        dtype_fold(call->dtype, in, world, call->dtype, out, count);
}
