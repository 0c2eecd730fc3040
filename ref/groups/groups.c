// SPDX-License-Identifier: Apache-2.0
#include "ref/groups/groups_internal.h"

#include "base/err.h"

#include <stdlib.h>

int groups_open(const struct groups_setting *setting, struct groups *out)
{
    const struct config *config = setting->config;
    const struct mesh mesh = config_mesh(config, comm_world(setting->world));
    *out = (struct groups){
        .setting = *setting,
        .mesh = mesh_of_data(&mesh),
        .shard_comm = setting->world,
        .verbs = exchange_plain,
    };
    TRY(replicas_open(out));
    TRY(hpz_open(out));
    TRY(experts_open(out));
    TRY(quantized_open(out));
    out->exchange = out->expert_exchange = (struct exchange){
        .verbs = &out->verbs,
        .layout = setting->layout,
        .comm = out->shard_comm,
        .executor = setting->move->executor,
        .reduce_bucket_elements = config->reduce_bucket_size,
        .gather_bucket_elements = config->allgather_bucket_size,
        .move = setting->move,
        .dtype = config->communication_dtype,
        .groups = out,
    };
    out->expert_exchange.comm = out->expert_data_comm;
    return ERR_NONE;
}

void groups_close(struct groups *g)
{
    buffer_cache_close(&g->comm_buffers);
    free(g->exchange_of);
    free(g->secondary_buckets);
    free(g->secondary_params);
    comm_close(g->secondary_comm);
    comm_close(g->node_comm);
    comm_close(g->across_comm);
    comm_close(g->expert_data_comm);
    comm_close(g->expert_comm);
    if (g->shard_comm != g->setting.world)
        comm_close(g->shard_comm);
    comm_close(g->replica_comm);
    *g = (struct groups){0};
}

void groups_complete_rule(const struct groups *g, struct layout_rule *rule)
{
    rule->block_elements = g->setting.config->quantization_block;
    if (g->expert_data_comm)
        rule->expert_shards = rule->shards > 1 ? comm_world(g->expert_data_comm) : 1;
}

int groups_choose(struct groups *g)
{
    size_t buckets = (size_t)g->setting.layout->bucket_count;
    g->exchange_of = calloc(buckets + 1, sizeof *g->exchange_of);
    if (!g->exchange_of)
        return err_set(ERR_MEMORY, "no memory for the exchanges of %zu buckets", buckets);
    for (size_t i = 0; i < buckets; i++)
        g->exchange_of[i] = g->setting.layout->buckets[i].expert ? &g->expert_exchange : &g->exchange;
    return g->secondary_comm ? hpz_cut(g) : ERR_NONE;
}

// Reduced each micro-step, a gradient comes from a gradient buffer; otherwise from the full gradients.
static int allocate_comm_buffers(struct groups *g)
{
    const struct config *config = g->setting.config;
    bool each = g->setting.reduces_each_micro_step;
    enum dtype source = each ? config->precision : config->accumulation_dtype;
    g->has_comm_buffers = source != config->communication_dtype || (each && !config->contiguous_gradients);
    const struct buffer_cache_rule rule = {
        .bucket_count = g->has_comm_buffers ? g->setting.layout->trainable_count : 0,
        .element_bytes = dtype_bytes(config->communication_dtype),
        .where = TIER_DEVICE,
        .name = "communication buffers",
    };
    int count = config->overlap_comm ? 2 : 1;
    if (buffer_cache_least(g->setting.layout, &rule, g->setting.layer_count) == 0)
        count = 0;
    if (g->has_comm_buffers)
        g->exchange.buffers = g->expert_exchange.buffers = &g->comm_buffers;
    return buffer_cache_open(g->setting.layout, &rule, count, g->setting.tier, &g->comm_buffers);
}

int groups_allocate_buffers(struct groups *g)
{
    TRY(quantized_allocate_gradients(g));
    TRY(allocate_comm_buffers(g));
    return quantized_allocate_params(g);
}
