// SPDX-License-Identifier: Apache-2.0
// ZeRO++'s quantized exchanges. qwZ (section 3.1) gathers parameters in 8 bits; persistent ones stay as they are. qgZ
// (section 3.3) reduces gradients in 4 bits, within nodes and then across them. Nodes are consecutive ranks of the
// shard group.
#include "ref/groups/groups_internal.h"

#include "base/err.h"
#include "ref/groups/exchange_quantized.h"
#include "ref/recipe/quantize.h"

#include <assert.h>

static bool packs(const struct groups *g, const struct bucket *bucket)
{
    return g->setting.config->quantized_weights && !bucket->persistent;
}

static int all_gather(const struct exchange *e, int bucket, const void *shard, void *full, enum dtype dtype)
{
    struct groups *g = e->groups;
    const struct bucket *b = &g->setting.layout->buckets[bucket];
    if (!packs(g, b) || b->count == 0)
        return exchange_plain.all_gather(e, bucket, shard, full, dtype);
    if (g->setting.config->e4m3_weights)
        return exchange_all_gather_e4m3(e, b, shard, full, dtype, buffer_pool_take(&g->packed_params));
    return exchange_all_gather_quantized(e, b, shard, full, dtype, g->setting.config->quantization_block,
                                         buffer_pool_take(&g->packed_params));
}

static struct exchange_nodes nodes_of(const struct groups *g)
{
    return (struct exchange_nodes){g->node_comm, g->across_comm, g->setting.move->executor,
                                   g->setting.config->quantization_block};
}

static int reduce_scatter(const struct exchange *e, int bucket, struct gradient *gradient, struct gradient goal)
{
    struct groups *g = e->groups;
    const struct bucket *b = &g->setting.layout->buckets[bucket];
    const struct exchange_nodes nodes = nodes_of(g);
    const struct gradient full = *gradient;
    gradient->dtype = e->dtype;
    if (goal.data && goal.dtype == e->dtype)
        gradient->data = goal.data;
    else if (e->buffers)
        gradient->data = buffer_cache_acquire(e->buffers, bucket);
    if (b->count == 0)
        return ERR_NONE;
    return exchange_reduce_quantized(&nodes, b, full.data, full.dtype, gradient->data, e->dtype,
                                     buffer_pool_take(&g->packed_gradients));
}

int quantized_open(struct groups *g)
{
    const struct config *config = g->setting.config;
    int rank = comm_rank(g->shard_comm), ranks = comm_world(g->shard_comm);
    if (config->quantized_weights)
        g->verbs.all_gather = all_gather;
    if (!config->quantized_gradients || ranks == 1)
        return ERR_NONE;
    // The configuration allows neither: replicas have a reduce_scatter of their own, and experts a communicator.
    assert(!g->replica_comm && !g->expert_comm);
    int locals = config->node_ranks, nodes = ranks / locals;
    g->verbs.reduce_scatter = reduce_scatter;
    if (locals > 1)
        TRY(groups_split(g, GROUP_NODE, locals, rank / locals * locals, 1, &g->node_comm));
    return nodes > 1 ? groups_split(g, GROUP_NODES, nodes, rank % locals, locals, &g->across_comm) : ERR_NONE;
}

static int open_pool(struct groups *g, const char *name, size_t bytes, struct buffer_pool *out)
{
    int count = bytes == 0 ? 0 : g->setting.config->overlap_comm ? 2 : 1;
    return buffer_pool_open(g->setting.tier, TIER_DEVICE, name, bytes, count, out);
}

int quantized_allocate_gradients(struct groups *g)
{
    const struct exchange_nodes nodes = nodes_of(g);
    size_t largest = 0;
    if (!g->node_comm && !g->across_comm)
        return ERR_NONE;
    for (int i = 0; i < g->setting.layout->trainable_count; i++) {
        size_t bytes = exchange_nodes_bytes(&nodes, &g->setting.layout->buckets[i]);
        largest = bytes > largest ? bytes : largest;
    }
    return open_pool(g, "quantized gradients", largest, &g->packed_gradients);
}

int quantized_allocate_params(struct groups *g)
{
    size_t largest = 0;
    if (!g->setting.config->quantized_weights)
        return ERR_NONE;
    for (int i = 0; i < g->setting.layout->bucket_count; i++) {
        const struct bucket *b = &g->setting.layout->buckets[i];
        size_t block = g->setting.config->quantization_block;
        size_t bytes = !packs(g, b)                      ? 0
                       : g->setting.config->e4m3_weights ? exchange_e4m3_bytes(b, comm_world(g->shard_comm))
                                                         : quantize_bytes(b->padded_count, block, QUANTIZE_WEIGHT_BITS);
        largest = bytes > largest ? bytes : largest;
    }
    return open_pool(g, "quantized parameters", largest, &g->packed_params);
}
