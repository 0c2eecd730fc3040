// SPDX-License-Identifier: Apache-2.0
// ZeRO++'s qgZ: a reduce-scatter as one or two all-to-alls of packed gradients, each followed by a sum.
#include "ref/groups/exchange_quantized.h"

#include "base/err.h"
#include "ref/recipe/quantize.h"

// One hop: this rank sends each of `peers` ranks `slots` shards, and sums what it receives. A packed shard has
// slot_bytes of room; only its elements are sent. Operations copy it.
struct hop {
    struct comm *comm;
    struct bucket bucket;
    int peers, slots;
    int ranks_of_node;              // S
    int first, step;                // the shard in slot j for peer p is first + p x step + j x S
    char *values;                   // to be sent: that shard begins at element (p + j x S) x shard_elements
    unsigned char *send, *receive;  // [peers][slots][slot_bytes]
    char *sums;                     // [slots][shard_elements]
    enum dtype dtype, sum_dtype;
    size_t block, slot_bytes;
};

static size_t elements_of(const struct hop *h, int peer, int slot)
{
    return bucket_shard_real(&h->bucket, h->first + peer * h->step + slot * h->ranks_of_node);
}

static size_t packed_bytes(const struct hop *h, int peer, int slot)
{
    return quantize_bytes(elements_of(h, peer, slot), h->block, QUANTIZE_GRADIENT_BITS);
}

static unsigned char *slot_at(const struct hop *h, unsigned char *memory, int peer, int slot)
{
    return memory + (size_t)(peer * h->slots + slot) * h->slot_bytes;
}

// The bytes of a peer's slots, which follow one another: only the last shard that has elements is not full.
static size_t peer_bytes(const struct hop *h, int peer)
{
    size_t bytes = 0;
    for (int slot = 0; slot < h->slots; slot++)
        bytes += packed_bytes(h, peer, slot);
    return bytes;
}

static size_t sent_bytes(const struct hop *h)
{
    size_t bytes = 0;
    for (int peer = 0; peer < h->peers; peer++)
        bytes += peer == comm_rank(h->comm) ? 0 : peer_bytes(h, peer);
    return bytes;
}

// Slices in the order of their receivers: the paper's tensor slice reordering.
static int run_pack(void *arguments)
{
    const struct hop *h = arguments;
    float x[QUANTIZE_BLOCK_MAX];
    for (int peer = 0; peer < h->peers; peer++)
        for (int slot = 0; slot < h->slots; slot++) {
            size_t count = elements_of(h, peer, slot);
            size_t begin = (size_t)(peer + slot * h->ranks_of_node) * h->bucket.shard_elements;
            unsigned char *packed = slot_at(h, h->send, peer, slot);
            for (size_t from = 0, length; from < count; from += length) {
                length = count - from < h->block ? count - from : h->block;
                dtype_widen(h->dtype, h->values + (begin + from) * dtype_bytes(h->dtype), x, length);
                quantize_block(x, length, QUANTIZE_GRADIENT_BITS, packed);
                packed += quantize_bytes(length, h->block, QUANTIZE_GRADIENT_BITS);
            }
        }
    return ERR_NONE;
}

static void count_hop(const void *arguments)
{
    const struct hop *h = arguments;
    comm_count(h->comm, PURPOSE_REDUCE, OPERATION_ALL_TO_ALL, 1, sent_bytes(h));
}

static int run_hop(void *arguments)
{
    const struct hop *h = arguments;
    size_t send_counts[h->peers], receive_counts[h->peers], offsets[h->peers];
    for (int peer = 0; peer < h->peers; peer++) {
        send_counts[peer] = peer_bytes(h, peer);
        receive_counts[peer] = peer_bytes(h, comm_rank(h->comm));
        offsets[peer] = (size_t)(peer * h->slots) * h->slot_bytes;
    }
    comm_count_as(h->comm, PURPOSE_REDUCE);
    int rc = comm_all_to_all(h->comm, h->send, send_counts, offsets, h->receive, receive_counts, offsets, DTYPE_BYTE);
    comm_count_as(h->comm, PURPOSE_OTHER);
    return rc;
}

// Of each block, all peers' values in fp32, one after the other.
static int run_sum(void *arguments)
{
    const struct hop *h = arguments;
    float sum[QUANTIZE_BLOCK_MAX], x[QUANTIZE_BLOCK_MAX];
    int own = comm_rank(h->comm);
    for (int slot = 0; slot < h->slots; slot++) {
        size_t count = elements_of(h, own, slot), at = 0;
        for (size_t from = 0, length; from < count; from += length) {
            length = count - from < h->block ? count - from : h->block;
            dequantize_block(slot_at(h, h->receive, 0, slot) + at, length, QUANTIZE_GRADIENT_BITS, sum);
            for (int peer = 1; peer < h->peers; peer++) {
                dequantize_block(slot_at(h, h->receive, peer, slot) + at, length, QUANTIZE_GRADIENT_BITS, x);
                for (size_t i = 0; i < length; i++)
                    sum[i] += x[i];
            }
            size_t to = (size_t)slot * h->bucket.shard_elements + from;
            dtype_narrow(h->sum_dtype, sum, h->sums + to * dtype_bytes(h->sum_dtype), length);
            at += quantize_bytes(length, h->block, QUANTIZE_GRADIENT_BITS);
        }
    }
    return ERR_NONE;
}

static size_t hop_bytes(const struct hop *h)
{
    return (size_t)(h->peers * h->slots) * h->slot_bytes;
}

static int issue(struct executor *executor, const struct hop *h, const char *name, int (*run)(void *arguments),
                 const struct executor_span spans[2])
{
    return executor_issue(executor, &(struct executor_operation){.name = name,
                                                                 .lane = LANE_COMPUTE,
                                                                 .run = run,
                                                                 .arguments = h,
                                                                 .arguments_bytes = sizeof *h,
                                                                 .spans = spans,
                                                                 .span_count = 2,
                                                                 .work_bytes = executor_span_bytes(spans, 2)});
}

// values_bytes and sums_bytes: of the memory that holds elements.
static int issue_hop(struct executor *executor, const struct hop *h, size_t values_bytes, size_t sums_bytes)
{
    const struct executor_span pack[] = {{h->values, values_bytes, EXECUTOR_READ},
                                         {h->send, hop_bytes(h), EXECUTOR_WRITE}};
    const struct executor_span exchange[] = {{h->send, hop_bytes(h), EXECUTOR_READ},
                                             {h->receive, hop_bytes(h), EXECUTOR_WRITE}};
    const struct executor_span sum[] = {{h->receive, hop_bytes(h), EXECUTOR_READ},
                                        {h->sums, sums_bytes, EXECUTOR_WRITE}};
    TRY(issue(executor, h, "quantize gradients", run_pack, pack));
    TRY(executor_issue(executor, &(struct executor_operation){.name = "all-to-all",
                                                              .lane = LANE_COLLECTIVE,
                                                              .run = run_hop,
                                                              .arguments = h,
                                                              .arguments_bytes = sizeof *h,
                                                              .spans = exchange,
                                                              .span_count = 2,
                                                              .bytes = sent_bytes(h),
                                                              .count = count_hop,
                                                              .work_bytes = sent_bytes(h),
                                                              .ranks = comm_world(h->comm),
                                                              .stride = comm_stride(h->comm)}));
    return issue(executor, h, "sum of gradients", run_sum, sum);
}

static int ranks_in(const struct comm *comm)
{
    return comm ? comm_world(comm) : 1;
}

// Memory, in this order: the first hop's packed gradients, sent and received; its sums; the second hop's.
struct memory {
    size_t first, sums, second;  // bytes
};

static struct memory memory_of(const struct exchange_nodes *nodes, const struct bucket *bucket)
{
    size_t slot_bytes = quantize_bytes(bucket->shard_elements, nodes->block, QUANTIZE_GRADIENT_BITS);
    size_t locals = (size_t)ranks_in(nodes->node), others = (size_t)ranks_in(nodes->across);
    return (struct memory){
        .first = nodes->node ? locals * others * slot_bytes : 0,
        .sums = nodes->node && nodes->across ? others * bucket->shard_elements * sizeof(float) : 0,
        .second = nodes->across ? others * slot_bytes : 0,
    };
}

size_t exchange_nodes_bytes(const struct exchange_nodes *nodes, const struct bucket *bucket)
{
    struct memory memory = memory_of(nodes, bucket);
    return 2 * memory.first + memory.sums + 2 * memory.second;
}

int exchange_reduce_quantized(const struct exchange_nodes *nodes, const struct bucket *bucket, void *full,
                              enum dtype dtype, void *shard, enum dtype shard_dtype, void *memory)
{
    const struct memory bytes = memory_of(nodes, bucket);
    int local = nodes->node ? comm_rank(nodes->node) : 0, node = nodes->across ? comm_rank(nodes->across) : 0;
    int locals = ranks_in(nodes->node), others = ranks_in(nodes->across);
    size_t shard_bytes = bucket_shard_real(bucket, node * locals + local) * dtype_bytes(shard_dtype);
    unsigned char *at = memory;
    struct hop hop = {
        .comm = nodes->node,
        .bucket = *bucket,
        .peers = locals,
        .slots = others,
        .ranks_of_node = locals,
        .step = 1,
        .values = full,
        .send = at,
        .receive = at + bytes.first,
        .sums = nodes->across ? (char *)at + 2 * bytes.first : shard,
        .dtype = dtype,
        .sum_dtype = nodes->across ? DTYPE_FP32 : shard_dtype,
        .block = nodes->block,
        .slot_bytes = quantize_bytes(bucket->shard_elements, nodes->block, QUANTIZE_GRADIENT_BITS),
    };
    size_t values_bytes = bucket->count * dtype_bytes(dtype);
    if (nodes->node)
        TRY(issue_hop(nodes->executor, &hop, values_bytes, nodes->across ? bytes.sums : shard_bytes));
    if (!nodes->across)
        return ERR_NONE;
    at += 2 * bytes.first + bytes.sums;
    hop.comm = nodes->across;
    hop.peers = others;
    hop.slots = 1;
    hop.first = local;
    hop.step = locals;
    hop.send = at;
    hop.receive = at + bytes.second;
    if (nodes->node) {
        hop.values = hop.sums;
        hop.dtype = DTYPE_FP32;
        values_bytes = bytes.sums;
    }
    hop.sums = shard;
    hop.sum_dtype = shard_dtype;
    return issue_hop(nodes->executor, &hop, values_bytes, shard_bytes);
}
