// SPDX-License-Identifier: Apache-2.0
#include "plan/device/device_staging.h"

#include <math.h>

static double layer_bytes(const struct counting *c, int layer)
{
    const struct model *model = c->s->model;
    double bytes = 0;
    for (int k = 0; layer < model->layer_count && k < model->layers[layer].param_count; k++)
        bytes += device_parameter_bytes(c, &model->params[model->layers[layer].params[k]]);
    return bytes;
}

// The gradients of a layer in 16 bits, and in the dtype of their reduce-scatter; frozen weights have none.
static double layer_gradient_bytes(const struct counting *c, int layer)
{
    const struct device_setting *s = c->s;
    size_t each = c->element_bytes + dtype_bytes(s->config->communication_dtype);
    return s->transformer->is_frozen ? 0 : layer_bytes(c, layer) * (double)each / (double)c->element_bytes;
}

static void add_layers(const struct counting *c)
{
    double gathered = 0, largest = 0;
    for (int i = 0; i < c->s->model->layer_count; i++) {
        gathered = fmax(gathered, 2 * layer_bytes(c, i) + layer_bytes(c, i + 1));
        largest = fmax(largest, layer_gradient_bytes(c, i));
    }
    if (c->s->config->stage == 3)
        device_add(c, "gathered", PASSES, "a layer, the buffer it was gathered in, and the buffer of the next one",
                   "PyTorch FSDP2, _fsdp_param_group.py: the next layer is gathered while one is copied and computes")
            [TIER_DEVICE] = (uint64_t)gathered;
    if (c->s->config->stage > 1)
        device_add(c, "reduced", AT(MOMENT_LAST_BLOCK) | AT(MOMENT_FIRST_BLOCK),
                   "one layer's gradients before and in their reduce-scatter",
                   "PyTorch FSDP2, fully_shard")[TIER_DEVICE] = (uint64_t)largest;
}

static void add_modules(const struct counting *c)
{
    const struct config *config = c->s->config;
    const struct model *model = c->s->model;
    double largest = 0;
    for (int i = 0; i < model->param_count; i++)
        largest = fmax(largest, device_parameter_bytes(c, &model->params[i]));
    double reduced = c->s->transformer->is_frozen
                         ? 0
                         : largest * (double)(c->element_bytes + dtype_bytes(config->communication_dtype)) /
                               (double)c->element_bytes;
    device_add(c, "gathered", PASSES, "two modules, and one's gradient before and in its reduce-scatter",
               "DeepSpeed, partitioned_param_coordinator.py: modules are fetched one by one")[TIER_DEVICE] =
        (uint64_t)(2 * largest + reduced);
    uint64_t bucket = device_smaller(config->reduce_bucket_size, model_param_elements(model, true)) * c->element_bytes;
    device_add(c, "bucket", ALWAYS, "of gradients to reduce, in 16 bits", "DeepSpeed, stage3.py")[TIER_DEVICE] = bucket;
    device_add(c, "reduced", AT(MOMENT_LAST_BLOCK) | AT(MOMENT_FIRST_BLOCK), "the bucket in one piece",
               "DeepSpeed, coalesced_collectives.py: torch.cat")[TIER_DEVICE] = bucket;
}

static void add_buckets(const struct counting *c)
{
    const struct config *config = c->s->config;
    uint64_t bucket = device_smaller(config->reduce_bucket_size, model_param_elements(c->s->model, true));
    device_add(c, "buckets", AT(MOMENT_LAST_BLOCK) | AT(MOMENT_FIRST_BLOCK),
               "of gradients to reduce, in 16 bits: two with overlap_comm, else one",
               "DeepSpeed, stage_1_and_2.py, setup_buckets; the bucket of the all-gather has no buffer")[TIER_DEVICE] =
        bucket * c->element_bytes * (config->overlap_comm ? 2 : 1);
}

void device_add_staging(const struct counting *c)
{
    if (!c->framework->gathers_modules)
        add_layers(c);
    else if (c->s->config->stage == 3)
        add_modules(c);
    else if (c->s->config->stage > 0)
        add_buckets(c);
    device_add(c, "pinned buffers", 0, "of sub-groups, parameters and gradients on their way",
               "the stage's own buffers, as DeepSpeed's")[TIER_HOST] = c->s->held_bytes[TIER_HOST][KIND_STAGING];
}
