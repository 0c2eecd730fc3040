// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/stage_quantized.h"

#include "base/err.h"
#include "ref/partition/exchange_quantized.h"
#include "ref/stage/stage_internal.h"

int stage_open_nodes(struct stage *stage)
{
    int rank = comm_rank(stage->shard_comm), ranks = comm_world(stage->shard_comm);
    int locals = stage->setting.config->node_ranks, nodes = ranks / locals;
    if (locals > 1)
        TRY(stage_split_shards(stage, GROUP_NODE, locals, rank / locals * locals, 1, &stage->node_comm));
    return nodes > 1 ? stage_split_shards(stage, GROUP_NODES, nodes, rank % locals, locals, &stage->across_comm)
                     : ERR_NONE;
}

bool stage_quantizes_gradients(const struct stage *stage)
{
    return stage->node_comm || stage->across_comm;
}

static struct exchange_nodes nodes_of(const struct stage *stage)
{
    return (struct exchange_nodes){stage->node_comm, stage->across_comm, stage->setting.executor,
                                   stage->setting.config->quantization_block};
}

int stage_scatter_quantized(struct stage *stage, int bucket, void *gradient)
{
    const struct config *config = stage->setting.config;
    const struct bucket *b = &stage->layout.buckets[bucket];
    const struct placement *placement = &stage->placements[bucket];
    const struct exchange_nodes nodes = nodes_of(stage);
    enum dtype dtype = config->communication_dtype;
    bool add = stage->micro > 0;
    bool direct = !add && dtype == config->accumulation_dtype && placement->gradient_tier == TIER_DEVICE;
    void *shard = direct                    ? placement->gradient_shard
                  : stage->has_comm_buffers ? buffer_cache_acquire(&stage->comm_buffers, bucket)
                                            : gradient;
    if (b->count > 0)
        TRY(exchange_reduce_quantized(&nodes, b, gradient, config->precision, shard, dtype,
                                      buffer_pool_take(&stage->packed_gradients)));
    return direct ? ERR_NONE : stage_store_gradient(stage, bucket, shard, dtype, add);
}

int stage_allocate_packed_gradients(struct stage *stage)
{
    const struct exchange_nodes nodes = nodes_of(stage);
    size_t largest = 0;
    if (!stage_quantizes_gradients(stage))
        return ERR_NONE;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        size_t bytes = exchange_nodes_bytes(&nodes, &stage->layout.buckets[i]);
        largest = bytes > largest ? bytes : largest;
    }
    return buffer_pool_open(stage->setting.tier, TIER_DEVICE, "quantized gradients", largest,
                            largest == 0                          ? 0
                            : stage->setting.config->overlap_comm ? 2
                                                                  : 1,
                            &stage->packed_gradients);
}
