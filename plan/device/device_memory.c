// SPDX-License-Identifier: Apache-2.0
// Held against the runs of datasets/memory.json.
#include "plan/device/device_memory.h"

#include "plan/device/device_staging.h"

// CUDA's context and kernels: 0.47 to 0.55 GiB (ml-engineering, training/performance/README.md); NCCL's buffers: 544 to
// 688 MB of one communicator (NVIDIA/nccl, issue 964).
#define CONTEXT_BYTES (UINT64_C(1) << 29)
#define NCCL_BYTES (UINT64_C(1) << 29)

// Allocators reserve this part of the tensors more, in the median of the fitted runs of datasets/memory.json and in
// four of five.
#define RESERVED_SHARE 0.14
#define RESERVED_AT_MOST 0.28

// DeepSpeed, estimate_zero2_model_states_mem_needs: additional_buffer_factor.
#define HOST_AT_MOST 1.5

// Of a moment in 8 bits, a block of 256 of which has a scale in fp32.
#define MOMENT_8BIT_BYTES (1 + 4.0 / 256)

static const char zero_source[] = "ZeRO (arXiv 1910.02054), figure 1; the stage's own";

// A kind of the stage's states, times a factor.
static void add_held(const struct counting *c, const char *name, unsigned moments, enum ledger_kind kind, double factor,
                     const char *formula)
{
    uint64_t *bytes = device_add(c, name, moments, formula, zero_source);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        bytes[tier] = (uint64_t)((double)c->s->held_bytes[tier][kind] * factor);
}

// The part of the parameters' bytes that stays when some have 4 bits.
static double quantized_part(const struct counting *c)
{
    double all = 0, kept = 0;
    for (int i = 0; i < c->s->model->param_count; i++) {
        all += (double)(c->s->model->params[i].count * c->element_bytes);
        kept += device_parameter_bytes(c, &c->s->model->params[i]);
    }
    return all > 0 ? kept / all : 1;
}

// Where the masters are the parameters, a shard has no 16-bit copy of its own: only what a stage holds beyond it, such
// as ZeRO++'s secondary shards, or shards whose masters are on another tier.
static void leave_out_masters_copies(const struct counting *c, uint64_t bytes[TIER_COUNT])
{
    size_t master_bytes = dtype_bytes(c->s->config->master_dtype);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        bytes[tier] -=
            device_smaller(bytes[tier], c->s->held_bytes[tier][KIND_MASTER] / master_bytes * c->element_bytes);
}

static void add_parameters(const struct counting *c)
{
    bool from_masters = c->framework->masters_are_parameters && c->has_masters && !c->s->transformer->is_frozen &&
                        c->s->held_bytes[TIER_DEVICE][KIND_MASTER] > 0;
    if (c->s->choice->weights == WEIGHTS_NF4) {
        add_held(c, "parameters", ALWAYS, KIND_PARAMETER, quantized_part(c),
                 "frozen matrices of the blocks in 4.127 bits, the others in 16 (QLoRA, arXiv 2305.14314)");
    } else if (from_masters && c->s->config->stage < 3) {
        add_held(c, "parameters", PASSES, KIND_PARAMETER, 1,
                 "2 Psi, 16-bit copies of the masters from forward to backward");
    } else {
        add_held(c, "parameters", ALWAYS, KIND_PARAMETER, 1,
                 "2 Psi in 16 bits, 1/N of it in stage 3; without those that masters take the place of");
        if (c->framework->masters_are_parameters && c->has_masters && !c->s->transformer->is_frozen)
            leave_out_masters_copies(c, c->m->lines[c->m->line_count - 1].bytes);
    }
}

static void add_gradients(const struct counting *c)
{
    double held_bytes = (double)dtype_bytes(c->s->config->accumulation_dtype), own = held_bytes;
    if (c->framework->masters_are_parameters)
        own = (double)(c->has_masters ? dtype_bytes(c->s->config->master_dtype) : c->element_bytes);
    bool stays = c->framework->keeps_gradients || c->s->config->accumulation > 1 ||
                 (c->framework->gathers_modules && c->s->config->stage == 3);
    add_held(c, "gradients", stays ? ALWAYS : WITH_GRADIENTS, KIND_GRADIENT, own / held_bytes,
             "Psi in the dtype of accumulation, or in that of the sharded parameters; 1/N of it from stage 2 on");
}

// The elements of a rank's shard whose moments are on the device.
static uint64_t shard_of(const struct counting *c)
{
    return c->s->held_bytes[TIER_DEVICE][KIND_OPTIMIZER] / (2 * dtype_bytes(c->s->config->moment_dtype));
}

// Held in addition to the states while the optimizer updates a rank's shard.
static void add_update(const struct counting *c)
{
    const struct config *config = c->s->config;
    uint64_t shard = shard_of(c);
    bool is_16bit = dtype_bytes(config->accumulation_dtype) < sizeof(float);
    if (c->framework->copies_gradients && is_16bit && config->stage > 0)
        device_add(c, "gradient copies", AT(MOMENT_UPDATE),
                   "(2 + 4) Psi / N: the gradients in one piece, and in the master's dtype; of a sub-group in stage 3",
                   c->framework->source)[TIER_DEVICE] =
            (c->element_bytes + dtype_bytes(config->master_dtype)) *
            (config->stage == 3 ? device_smaller(shard, config->sub_group_size) : shard);
    if (c->framework->has_temporaries && c->s->choice->moments != MOMENTS_8BIT)
        device_add(c, "temporaries", AT(MOMENT_UPDATE), "as large as one moment of the shard",
                   c->framework->source)[TIER_DEVICE] =
            shard * (c->has_masters ? dtype_bytes(config->moment_dtype) : c->element_bytes);
}

// A master in the model's dtype is the parameters themselves, but in DeepSpeed's stages 1 and 2, which clone them.
static void add_masters(const struct counting *c)
{
    const struct config *config = c->s->config;
    bool is_shared = c->s->held_bytes[TIER_DEVICE][KIND_MASTER] == 0 && config->master_dtype == config->precision;
    add_held(c, "master", ALWAYS, KIND_MASTER, c->has_masters,
             "4 Psi: parameters in fp32, or 2 Psi in 16 bits; 1/N of it from stage 1 on");
    if (is_shared && c->has_masters && c->framework->copies_gradients && config->master_dtype != DTYPE_FP32 &&
        (config->stage == 1 || config->stage == 2))
        c->m->lines[c->m->line_count - 1].bytes[TIER_DEVICE] = shard_of(c) * dtype_bytes(config->master_dtype);
}

static void add_states(const struct counting *c)
{
    double held_bytes = (double)dtype_bytes(c->s->config->moment_dtype);
    double moments = c->s->choice->moments == MOMENTS_8BIT ? MOMENT_8BIT_BYTES / held_bytes
                     : c->has_masters                      ? 1
                                                           : (double)c->element_bytes / held_bytes;
    add_parameters(c);
    add_gradients(c);
    add_held(c, "optimizer", ALWAYS, KIND_OPTIMIZER, moments,
             "8 Psi: two moments in fp32, or in the dtype chosen; 1/N of it from stage 1 on");
    add_masters(c);
    add_held(c, "padding", ALWAYS, KIND_PADDING, 1, "up to whole shards and blocks");
    add_update(c);
}

// A rank's part of the width between the products: all, or with sequence parallelism 1/ranks (section 4.2.2).
static size_t kept_width(const struct transformer *t)
{
    return t->width / (t->sequence_ranks > 0 ? t->sequence_ranks : 1);
}

size_t transformer_kept_values(const struct transformer *t)
{
    // x, norm(x), x2 and norm(x2); queries, keys and values; attention's output; the MLP's hidden values.
    size_t attention = t->query_latent + t->key_latent + t->query_width + t->key_width + t->value_width;
    size_t hidden = transformer_expert_values(t) + t->shared_hidden;
    return 4 * kept_width(t) + attention + t->output_width + t->mlp_matrices * hidden;
}

// Of a token in a block: with eager kernels both norms' inputs are in fp32, in addition to the normalized values and
// the outputs, and a gated MLP keeps its activation's output, too.
static double kept_bytes(const struct counting *c)
{
    const struct transformer *t = c->s->transformer;
    size_t values = transformer_kept_values(t);
    if (!c->framework->has_eager_kernels)
        return (double)(values * c->element_bytes);
    values += t->mlp_matrices == 3 ? transformer_expert_values(t) + t->shared_hidden : 0;
    return (double)(values * c->element_bytes + 2 * kept_width(t) * sizeof(float));
}

static void add_activations(const struct counting *c)
{
    const struct device_setting *s = c->s;
    const struct transformer *t = s->transformer;
    uint64_t tokens = (uint64_t)s->config->micro_batch * t->sequence_length;
    double block = (double)tokens * kept_bytes(c), share = s->choice->checkpointed_share;
    double in_flight = s->in_flight > 0 ? s->in_flight : 1;
    double checkpoints = in_flight * share * (double)(t->blocks * tokens * kept_width(t) * c->element_bytes);
    const struct logits_kind *logits = framework_logits(s->choice, c->framework);
    device_add(c, "activations", WITH_CHECKPOINTS,
               "kept values x tokens of the blocks without checkpoints, for each micro-batch in flight",
               "Korthikanti et al. (arXiv 2205.05198), section 4.1, with flash attention, no dropout")[TIER_DEVICE] =
        (uint64_t)(in_flight * (1 - share) * (double)t->blocks * block);
    device_add(
        c, "checkpoints", WITH_CHECKPOINTS,
        "2 x tokens x width of each block with a checkpoint and micro-batch in flight",
        "ZeRO-Infinity (arXiv 2104.07857), equation 3")[s->config->activation_checkpointing ? s->config->activation_tier
                                                                                            : TIER_DEVICE] =
        (uint64_t)checkpoints;
    device_add(c, "block", AT(MOMENT_LAST_BLOCK) | AT(MOMENT_FIRST_BLOCK),
               "of the block whose backward runs: kept values x tokens, recomputed, and as many gradients of its MLP",
               "Korthikanti et al. (arXiv 2205.05198), section 5")[TIER_DEVICE] =
        (uint64_t)((share > 0 ? block : 0) + (double)(tokens * transformer_expert_values(t) * c->element_bytes));
    if (t->context_ranks > 1)
        device_add(
            c, "ring", PASSES,
            "8 x tokens x (keys + values): of two ranks, one computed with and one on its way, and their gradients",
            "Ring Attention (arXiv 2310.01889), section 3; Megatron-LM, cp_comm_type p2p")[TIER_DEVICE] =
            4 * c->element_bytes * tokens * (t->key_width + t->value_width);
    device_add(c, "logits", AT(MOMENT_LOSS), logits->formula, logits->source)[TIER_DEVICE] =
        (uint64_t)(logits->bytes * (double)(tokens * t->vocabulary));
}

// The device needs its fullest moment; other tiers hold everything.
static void add_up(struct device_memory *m)
{
    for (int moment = 0; moment < MOMENT_COUNT; moment++) {
        uint64_t held = 0;
        for (int i = 0; i < m->line_count; i++)
            held += m->lines[i].moments & AT(moment) ? m->lines[i].bytes[TIER_DEVICE] : 0;
        if (held > m->tensor_bytes) {
            m->tensor_bytes = held;
            m->fullest = (enum device_moment)moment;
        }
    }
    for (int tier = TIER_DEVICE + 1; tier < TIER_COUNT; tier++)
        for (int i = 0; i < m->line_count; i++)
            m->total_bytes[tier] += m->lines[i].bytes[tier];
}

static void add_margins(const struct counting *c)
{
    struct device_memory *m = c->m;
    double host = c->framework->gathers_modules ? HOST_AT_MOST : 1, tensors = (double)m->tensor_bytes;
    m->context_bytes = CONTEXT_BYTES + (c->s->world > 1 ? NCCL_BYTES : 0);
    m->reserved_bytes = (uint64_t)((1 + RESERVED_SHARE) * tensors);
    m->total_bytes[TIER_DEVICE] = m->tensor_bytes + m->context_bytes;
    m->at_most_bytes[TIER_DEVICE] = (uint64_t)((1 + RESERVED_AT_MOST) * tensors) + m->context_bytes;
    m->at_most_bytes[TIER_HOST] = (uint64_t)(host * (double)m->total_bytes[TIER_HOST]);
    m->at_most_bytes[TIER_NVME] = m->total_bytes[TIER_NVME];
}

void device_memory_of(const struct device_setting *setting, struct device_memory *out)
{
    const struct framework *framework = framework_of(setting->choice, setting->config);
    const struct counting c = {.s = setting,
                               .framework = framework,
                               .m = out,
                               .element_bytes = dtype_bytes(setting->config->precision),
                               .has_masters = setting->choice->weights == WEIGHTS_MIXED};
    *out = (struct device_memory){.framework = framework};
    add_states(&c);
    device_add_staging(&c);
    add_activations(&c);
    add_up(out);
    add_margins(&c);
}

const char *device_moment_name(enum device_moment moment)
{
    static const char *const names[MOMENT_COUNT] = {"the loss", "the last block's backward",
                                                    "the first block's backward", "the update"};
    return names[moment];
}
