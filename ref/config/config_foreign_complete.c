// SPDX-License-Identifier: Apache-2.0
// Keys that several of another program's file decide together.
#include "base/err.h"
#include "ref/config/config_accelerate.h"
#include "ref/config/config_doc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool accelerate_is_trainer(const struct config_program *program)
{
    return program && program->rows && program->rows != accelerate_rows;
}

// Sets the stage where no key names it.
static int set_stage(const struct accelerate_read *read, const json_t *own)
{
    bool has_stage = config_doc_descend(read->root, "zero_optimization.stage"),
         has_file = json_object_get(own, "deepspeed");
    bool fsdp = json_object_get(own, "fsdp");
    if (has_stage || has_file)
        return ERR_NONE;
    if (fsdp) {
        for (const char *const *at = (const char *const[]){ACCELERATE_FULL_SHARD, NULL}; *at; at++)
            TRY(config_doc_set(read->root, *at));
        return ERR_NONE;
    }
    if (!read->type && !accelerate_is_trainer(read->program))
        return err_set(ERR_USAGE,
                       "%s:1: deepspeed_config.zero_stage: missing, expected it, or in fsdp_config "
                       "fsdp_sharding_strategy or fsdp_reshard_after_forward",
                       read->name);
    bool is_deepspeed = read->type && strcmp(read->type, "DEEPSPEED") == 0;  // whose default Accelerate makes stage 2
    return config_doc_set(read->root, is_deepspeed ? "zero_optimization.stage=2" : "zero_optimization.stage=0");
}

// The rank of adapters counts where there are some.
static int settle_adapters(const struct accelerate_read *read)
{
    json_t *own = json_object_get(read->root, "own"), *plan = json_object_get(own, "plan");
    bool has_them = json_object_get(plan, "adapters") || (read->program->has_adapters && !json_object_get(own, "full"));
    if (has_them && !read->options->plans)
        return err_set(ERR_USAGE, "%s: finetuning_type: missing, expected full: adapters are trained without it",
                       read->name);
    if (json_object_get(plan, "lora") || !has_them)
        json_object_del(plan, "adapters");
    if (!has_them)
        json_object_del(plan, "lora");
    return ERR_NONE;
}

// A whole number of "own", or 1. ERR_USAGE names its key.
static int read_count(const struct accelerate_read *read, const char *name, int64_t *out)
{
    enum { MOST = 1 << 30 };
    char path[64];
    snprintf(path, sizeof path, "own.%s", name);
    const json_t *value = config_doc_descend(read->root, path);
    *out = value ? json_integer_value(value) : 1;
    return *out >= 1 && *out <= MOST ? ERR_NONE
                                     : err_set(ERR_USAGE, "%s:%s: expected a whole number from 1 to %d", read->name,
                                               json_string_value(json_object_get(read->places, path)), MOST);
}

// Experts that ranks of tensor parallelism have whole are counted among those of data parallelism alone here.
static int spread_experts(const struct accelerate_read *read, int64_t tensor, int64_t *expert)
{
    json_t *plan = config_doc_descend(read->root, "own.plan");
    int64_t slices;
    TRY(read_count(read, "plan.expert_tensor", &slices));
    if (!json_object_get(plan, "expert_tensor"))
        return ERR_NONE;
    if (slices == tensor || *expert == 1) {
        json_object_del(plan, "expert_tensor");
        return ERR_NONE;
    }
    if (slices > 1 || *expert % tensor != 0)
        return err_set(ERR_USAGE,
                       "%s: expert_tensor_parallel_size: is %lld, expected 1 or %lld, and a multiple of %lld "
                       "ranks that divide experts",
                       read->name, (long long)slices, (long long)tensor, (long long)tensor);
    *expert /= tensor;
    return ERR_NONE;
}

// Ranks that no degree names share the states, or in stage 0 are replicas; those that divide a sequence are some of
// those that share.
static int set_mesh(const struct accelerate_read *read, const json_t *own)
{
    enum { REPLICATE, SHARD, TENSOR, EXPERT = 4, AXES };
    static const char *const axes[AXES] = {"replicate", "shard", "tensor", "pipeline", "expert"};
    char mesh[256] = "zerogauge.mesh=";
    size_t start = strlen(mesh), used = start;
    int64_t degrees[AXES], context, ranks = 1;
    int64_t world = accelerate_is_trainer(read->program) ? read->options->world : 0;
    bool shares = json_object_get(own, "deepspeed") ||
                  json_integer_value(config_doc_descend(read->root, "zero_optimization.stage")) > 0;
    for (size_t i = 0; i < AXES; i++) {
        TRY(read_count(read, axes[i], &degrees[i]));
        ranks *= i < AXES - 1 && ranks < INT32_MAX ? degrees[i] : 1;
    }
    TRY(read_count(read, "plan.context", &context));
    TRY(spread_experts(read, degrees[TENSOR], &degrees[EXPERT]));
    bool is_given = ranks > 1 || degrees[AXES - 1] > 1;
    if (world > 0 && is_given && !json_object_get(own, "shard") && world / context / ranks > 1)
        degrees[shares ? SHARD : REPLICATE] *= world / context / ranks;
    degrees[SHARD] *= is_given ? context : 1;
    for (size_t i = 0; i < AXES; i++)
        if (degrees[i] != 1)
            used += (size_t)snprintf(mesh + used, sizeof mesh - used, "%s%s=%lld", used > start ? "," : "", axes[i],
                                     (long long)degrees[i]);
    return used > start ? config_doc_set(read->root, mesh) : ERR_NONE;
}

static int set_betas(const struct accelerate_read *read, const json_t *own)
{
    const json_t *first = json_object_get(own, "beta1"), *second = json_object_get(own, "beta2");
    char text[256];
    if (!first && !second)
        return ERR_NONE;
    snprintf(text, sizeof text, "optimizer.params.betas=[%.17g,%.17g]", first ? json_number_value(first) : 0.9,
             second ? json_number_value(second) : 0.999);
    return config_doc_set(read->root, text);
}

// torchtitan cuts the batch of a rank into micro-batches where there is a pipeline; FSDP then keeps the parameters that
// it gathered, and reduces once, which is what stage 1 moves.
static int set_pipeline(const struct accelerate_read *read, const json_t *own)
{
    static const char micro_key[] = "train_micro_batch_size_per_gpu", stage_key[] = "zero_optimization.stage";
    char text[128];
    int64_t stages, micro;
    json_int_t batch = json_integer_value(json_object_get(read->root, micro_key));
    TRY(read_count(read, "pipeline", &stages));
    TRY(read_count(read, "micro", &micro));
    if (stages == 1 || !json_object_get(own, "fsdp"))
        return ERR_NONE;
    if (batch < micro || batch % micro != 0)
        return err_set(ERR_USAGE,
                       "%s: the batch of a rank, %lld, is not a multiple of pipeline_parallel_microbatch_size, %lld",
                       read->name, (long long)batch, (long long)micro);
    if (!json_object_get(read->places, stage_key) || json_integer_value(config_doc_descend(read->root, stage_key)) < 3)
        TRY(config_doc_set(read->root, "zero_optimization.stage=1"));
    if (!json_object_get(read->root, "train_batch_size")) {
        snprintf(text, sizeof text, "gradient_accumulation_steps=%lld", (long long)(batch / micro));
        TRY(config_doc_set(read->root, text));
    }
    snprintf(text, sizeof text, "%s=%lld", micro_key, (long long)micro);
    return config_doc_set(read->root, text);
}

int accelerate_complete(const struct accelerate_read *read)
{
    const json_t *own = json_object_get(read->root, "own");
    bool is_trainer = accelerate_is_trainer(read->program);
    if (is_trainer && (read->program->rows == trainer_rows || read->program->rows == nemo_rows))
        TRY(settle_adapters(read));
    int64_t count;
    TRY(read_count(read, "plan.lora", &count));
    TRY(read_count(read, "plan.sequence_length", &count));
    TRY(set_stage(read, own));
    TRY(set_pipeline(read, own));
    TRY(set_mesh(read, own));
    if (json_integer_value(json_object_get(own, "tensor")) > 1 && json_object_get(own, "sequence"))
        TRY(config_doc_set(read->root, "zerogauge.sequence_parallel=true"));
    if (is_trainer && !config_doc_descend(read->root, "optimizer.params.lr"))
        TRY(config_doc_set(read->root, "optimizer.params.lr=auto"));
    return set_betas(read, own);
}
