// SPDX-License-Identifier: Apache-2.0
// Held against the memory that torchtitan reports for Llama 3.1 8B on 8 and 128 H100 (device_memory_test.c), and
// against every run of datasets/throughput.json, which all fitted.
#include "plan/device/device_memory.h"

#include <assert.h>

// A rank's part of the width between the products: all, or with sequence parallelism 1/ranks (section 4.2.2).
static size_t kept_width(const struct transformer *t)
{
    return t->width / (t->sequence_ranks > 0 ? t->sequence_ranks : 1);
}

size_t transformer_kept_values(const struct transformer *t)
{
    // x, norm(x), x2 and norm(x2); queries, keys and values; attention's output; the MLP's hidden values.
    size_t attention = t->query_latent + t->key_latent + t->query_width + t->key_width + t->value_width;
    size_t hidden = t->hidden * t->experts_used + t->shared_hidden;
    return 4 * kept_width(t) + attention + t->output_width + t->mlp_matrices * hidden;
}

// CUDA's context and libraries, and NCCL's channels. Nothing for fragmentation: before it fails, PyTorch's allocator
// returns the blocks that it cannot use, at a cost in time.
#define RESERVE_BYTES (UINT64_C(1) << 30)

enum { LOGIT_BYTES = 4 + 4 };

static uint64_t *add(struct device_memory *m, const char *name, const char *formula, const char *source)
{
    assert(m->line_count < DEVICE_LINE_MAX);
    struct device_line *line = &m->lines[m->line_count++];
    *line = (struct device_line){.name = name, .formula = formula, .source = source};
    return line->bytes;
}

static void add_states(const struct device_setting *s, struct device_memory *m)
{
    static const struct {
        enum ledger_kind kind;
        const char *name, *formula;
    } states[] = {
        {KIND_PARAMETER, "parameters", "2 Psi in 16 bits, 1/N of it in stage 3"},
        {KIND_GRADIENT, "gradients", "Psi in the dtype of accumulation, 1/N of it from stage 2 on"},
        {KIND_OPTIMIZER, "optimizer", "8 Psi: two moments in fp32, 1/N of it from stage 1 on"},
        {KIND_MASTER, "master", "4 Psi: parameters in fp32, 1/N of it from stage 1 on"},
        {KIND_PADDING, "padding", "up to whole shards and blocks"},
    };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        uint64_t *bytes =
            add(m, states[i].name, states[i].formula, "ZeRO (arXiv 1910.02054), figure 1; the stage's own");
        for (int tier = 0; tier < TIER_COUNT; tier++)
            bytes[tier] = s->held_bytes[tier][states[i].kind];
    }
}

// The elements of the largest layer, or of the largest parameter of a layer.
static uint64_t largest_elements(const struct model *model, bool of_layers)
{
    uint64_t largest = 0;
    for (int i = 0; i < model->layer_count; i++) {
        uint64_t count = 0;
        for (int k = 0; k < model->layers[i].param_count; k++) {
            uint64_t own = model->params[model->layers[i].params[k]].count;
            count = of_layers ? count + own : own > count ? own : count;
        }
        largest = count > largest ? count : largest;
    }
    return largest;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void add_staging(const struct device_setting *s, struct device_memory *m)
{
    const struct config *c = s->config;
    uint64_t element_bytes = dtype_bytes(c->precision), all = model_param_elements(s->model, false);
    // Frozen weights have no gradients.
    uint64_t gathered_bytes =
        s->transformer->is_frozen ? 2 * element_bytes : 3 * element_bytes + dtype_bytes(c->communication_dtype);
    if (c->stage == 3 && c->offload_param.tier == TIER_DEVICE) {
        add(m, "staging", "two gathered layers, and one layer's gradient before and in its reduce-scatter",
            "PyTorch FSDP2, fully_shard: the next layer is gathered while one computes")[TIER_DEVICE] =
            largest_elements(s->model, true) * gathered_bytes;
    } else if (c->stage == 3) {
        add(m, "staging", "two gathered modules, and one's gradient before and in its reduce-scatter",
            "DeepSpeed, partitioned_param_coordinator.py: modules are fetched one by one")[TIER_DEVICE] =
            largest_elements(s->model, false) * gathered_bytes;
    } else if (c->stage > 0) {
        uint64_t buckets =
            smaller(c->reduce_bucket_size, all) + (s->world > 1 ? smaller(c->allgather_bucket_size, all) : 0);
        add(m, "staging", "4.5 x the buckets of reduce-scatter and all-gather with overlap_comm, else once",
            "Hugging Face Transformers, DeepSpeed integration: 5e8 x 2 bytes x 2 x 4.5")[TIER_DEVICE] =
            buckets * element_bytes * (c->overlap_comm ? 9 : 2) / 2;
    }
    uint64_t *host = add(m, "pinned buffers", "of sub-groups, parameters and gradients on their way",
                         "the stage's own buffers, as DeepSpeed's");
    host[TIER_HOST] = s->held_bytes[TIER_HOST][KIND_STAGING];
}

static void add_activations(const struct device_setting *s, struct device_memory *m)
{
    const struct transformer *t = s->transformer;
    uint64_t tokens = (uint64_t)s->config->micro_batch * t->sequence_length,
             element_bytes = dtype_bytes(s->config->precision);
    double block = (double)(tokens * transformer_kept_values(t) * element_bytes), share = s->checkpointed_share;
    double in_flight = s->in_flight > 0 ? s->in_flight : 1,
           checkpoints = in_flight * share * (double)(t->blocks * tokens * kept_width(t) * element_bytes);
    double kept = in_flight * (1 - share) * (double)t->blocks * block;
    uint64_t *bytes = add(m, "activations",
                          "kept values x tokens of the blocks without checkpoints, for each micro-batch in flight, and "
                          "of one block that recomputes",
                          "Korthikanti et al. (arXiv 2205.05198), section 4.1, with flash attention, no dropout");
    bytes[TIER_DEVICE] = (uint64_t)(kept + (share > 0 ? block : 0));
    bytes = add(m, "checkpoints", "2 x tokens x width of each block with a checkpoint and micro-batch in flight",
                "ZeRO-Infinity (arXiv 2104.07857), equation 3");
    bytes[s->config->activation_checkpointing ? s->config->activation_tier : TIER_DEVICE] = (uint64_t)checkpoints;
    uint64_t logit_bytes = s->logit_bytes > 0 ? s->logit_bytes : LOGIT_BYTES;
    add(m, "logits", "8 x tokens x vocabulary unless given: in fp32, and their gradient",
        "PyTorch, cross_entropy of logits in fp32")[TIER_DEVICE] = logit_bytes * tokens * t->vocabulary;
}

void device_memory_of(const struct device_setting *setting, struct device_memory *out)
{
    *out = (struct device_memory){0};
    add_states(setting, out);
    add_staging(setting, out);
    add_activations(setting, out);
    add(out, "reserve", "1 GiB: CUDA's context and libraries, NCCL",
        "assumed; held against torchtitan's reports for Llama 3.1 8B on 8 and 128 H100")[TIER_DEVICE] = RESERVE_BYTES;
    for (int tier = 0; tier < TIER_COUNT; tier++)
        for (int i = 0; i < out->line_count; i++)
            out->total_bytes[tier] += out->lines[i].bytes[tier];
}
