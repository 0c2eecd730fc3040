// SPDX-License-Identifier: Apache-2.0
// Resolves a configuration: defaults, the batch triple, precision, and contradictions between values.
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <float.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

static enum dtype dtype_at(const struct config_doc *doc, const char *path, enum dtype fallback)
{
    const char *name = config_doc_string(doc, path, NULL);
    if (!name)
        return fallback;
    return strcmp(name, "fp32") == 0 ? DTYPE_FP32 : strcmp(name, "fp16") == 0 ? DTYPE_FP16 : DTYPE_BF16;
}

static const char TRAIN[] = "train_batch_size";
static const char MICRO[] = "train_micro_batch_size_per_gpu";
static const char ACCUMULATION[] = "gradient_accumulation_steps";

static const char *if_derived(bool given)
{
    return given ? "" : " (derived)";
}

// As DeepSpeed does: derives missing values with divisions that round down, then checks the product.
static int resolve_batch(const struct config_doc *doc, struct config *out)
{
    size_t ranks = (size_t)config_data_ranks(doc);
    size_t train = config_doc_size(doc, TRAIN, 0), micro = config_doc_size(doc, MICRO, 0);
    size_t accumulation = config_doc_size(doc, ACCUMULATION, 0);
    bool micro_given = micro > 0, accumulation_given = accumulation > 0;
    if (!train && !micro) {
        if (!config_doc_is_auto(doc, TRAIN) && !config_doc_is_auto(doc, MICRO))
            return config_doc_fail(doc, MICRO, "missing, expected this key or %s", TRAIN);
        micro = 1;
    }
    if (!accumulation)
        accumulation = train && micro ? train / micro / ranks : 1;
    if (!micro)
        micro = train / ranks / accumulation;
    size_t product;
    if (__builtin_mul_overflow(micro * accumulation, ranks, &product) || product > LLONG_MAX)
        return config_doc_fail(doc, MICRO, "is %zu, %s is %zu, the world is %zu: the product is too large", micro,
                               ACCUMULATION, accumulation, ranks);
    if (train && train != product)
        return config_doc_fail(doc, TRAIN, "is %zu, expected %s x %s x world = %zu%s x %zu%s x %zu = %zu", train, MICRO,
                               ACCUMULATION, micro, if_derived(micro_given), accumulation,
                               if_derived(accumulation_given), ranks, product);
    out->train_batch = product;
    out->micro_batch = micro;
    out->accumulation = accumulation;
    return ERR_NONE;
}

static int resolve_loss_scale(const struct config_doc *doc, struct config *out)
{
    struct config_loss_scale *scale = &out->loss_scale;
    *scale = (struct config_loss_scale){
        .static_scale = 1, .initial_scale_power = 16, .window = 1000, .hysteresis = 2, .min_scale = 1};
    if (out->precision != DTYPE_FP16)
        return ERR_NONE;
    double fixed = config_doc_number(doc, "fp16.loss_scale", 0);
    scale->dynamic = fixed == 0;
    if (!scale->dynamic) {
        scale->static_scale = fixed;
        if (fixed < FLT_MIN)
            return config_doc_fail(doc, "fp16.loss_scale", "is %g, expected 0 (dynamic) or at least %g", fixed,
                                   (double)FLT_MIN);
        return ERR_NONE;
    }
    int64_t power = config_doc_whole(doc, "fp16.initial_scale_power", 16);
    int64_t window = config_doc_whole(doc, "fp16.loss_scale_window", 1000);
    int64_t hysteresis = config_doc_whole(doc, "fp16.hysteresis", 2);
    int64_t min_scale = config_doc_whole(doc, "fp16.min_loss_scale", 1);
    if (power < 0 || power > 127)
        return config_doc_fail(doc, "fp16.initial_scale_power", "is %lld, expected a whole number from 0 to 127",
                               (long long)power);
    if (window < 1)
        return config_doc_fail(doc, "fp16.loss_scale_window", "is %lld, expected at least 1", (long long)window);
    if (hysteresis < 1)
        return config_doc_fail(doc, "fp16.hysteresis", "is %lld, expected at least 1", (long long)hysteresis);
    if (min_scale < 1)
        return config_doc_fail(doc, "fp16.min_loss_scale", "is %lld, expected at least 1", (long long)min_scale);
    if (power < 63 && min_scale > (1LL << power))
        return config_doc_fail(doc, "fp16.min_loss_scale", "is %lld, expected at most the initial scale, 2^%lld = %lld",
                               (long long)min_scale, (long long)power, 1LL << power);
    scale->initial_scale_power = (unsigned)power;
    scale->window = (uint64_t)window;
    scale->hysteresis = (uint64_t)hysteresis;
    scale->min_scale = (double)min_scale;
    scale->consecutive_hysteresis = config_doc_flag(doc, "fp16.consecutive_hysteresis", false);
    return ERR_NONE;
}

static const char ACCUMULATE[] = "data_types.grad_accum_dtype";

static bool converts(enum dtype a, enum dtype b)
{
    return a == b || a == DTYPE_FP32 || b == DTYPE_FP32;
}

// Gradients go from the model's dtype to that of communication and on to that of accumulation; in the first two stages
// they are accumulated before they are sent. No step leads from one format of 16 bits to another.
static int check_conversions(const struct config_doc *doc, const struct config *out)
{
    enum dtype model = out->precision, communication = out->communication_dtype, accumulation = out->accumulation_dtype;
    const char *key = model == DTYPE_FP16 ? "fp16.enabled" : "bf16.enabled";
    bool early = out->stage < 2;
    if (early && !converts(model, accumulation))
        return config_doc_fail(doc, ACCUMULATE, "is \"%s\" and %s is true, expected \"%s\" or \"fp32\" in stage %d",
                               dtype_name(accumulation), key, dtype_name(model), out->stage);
    if (!converts(model, communication) && (!early || accumulation == model))
        return config_doc_fail(doc, "communication_data_type", "is \"%s\" and %s is true, expected \"%s\" or \"fp32\"",
                               dtype_name(communication), key, dtype_name(model));
    if (!converts(communication, accumulation))
        return config_doc_fail(doc, ACCUMULATE,
                               "is \"%s\" and communication_data_type is \"%s\", expected \"%s\" or "
                               "\"fp32\"",
                               dtype_name(accumulation), dtype_name(communication), dtype_name(communication));
    return ERR_NONE;
}

static int resolve_precision(const struct config_doc *doc, struct config *out)
{
    static const char PARAM[] = "data_types.param_dtype";
    bool fp16 = config_doc_flag(doc, "fp16.enabled", false), bf16 = config_doc_flag(doc, "bf16.enabled", false);
    // Hugging Face's trainers write "auto" for the model's own dtype, which is of 16 bits for models of these years.
    if (!fp16 && !bf16) {
        bf16 = config_doc_is_auto(doc, "bf16.enabled");
        fp16 = !bf16 && config_doc_is_auto(doc, "fp16.enabled");
    }
    if (fp16 && bf16)
        return config_doc_fail(doc, "bf16.enabled", "is true and fp16.enabled is true, expected at most one of them");
    enum dtype model = fp16 ? DTYPE_FP16 : bf16 ? DTYPE_BF16 : DTYPE_FP32;
    enum dtype param = dtype_at(doc, PARAM, model);
    if (param != model)
        return config_doc_fail(doc, PARAM, "is \"%s\", expected \"%s\", as fp16.enabled and bf16.enabled say",
                               dtype_name(param), dtype_name(model));
    out->precision = model;
    out->communication_dtype = dtype_at(doc, "communication_data_type", model);
    out->accumulation_dtype = dtype_at(doc, ACCUMULATE, model);
    if (out->stage == 0 && out->accumulation_dtype != model && out->accumulation_dtype != DTYPE_FP32)
        return config_doc_fail(doc, ACCUMULATE, "is \"%s\", expected \"%s\" or \"fp32\" in stage 0",
                               dtype_name(out->accumulation_dtype), dtype_name(model));
    TRY(check_conversions(doc, out));
    out->check_overflow = fp16 || (bf16 && config_doc_flag(doc, "bf16.check_grad_overflow", true));
    return resolve_loss_scale(doc, out);
}

static int resolve_optimizer(const struct config_doc *doc, struct config *out)
{
    static const char LR[] = "optimizer.params.lr";
    const char *type = config_doc_string(doc, "optimizer.type", config_doc_given(doc, "optimizer") ? NULL : "Adam");
    if (!type)
        return config_doc_fail(doc, "optimizer.type", "missing, expected \"Adam\" or \"AdamW\"");
    bool adamw = strcasecmp(type, "AdamW") == 0;
    if (!adamw && strcasecmp(type, "Adam") != 0) {
        char shown[TEXT_MESSAGE_BYTES];
        return config_doc_fail(doc, "optimizer.type",
                               "is %s, expected \"Adam\" or \"AdamW\": no other optimizer is supported",
                               json_message(shown, config_doc_given(doc, "optimizer.type")));
    }
    // DeepSpeed's "Adam" is AdamW, too, unless adam_w_mode is false.
    bool mode = config_doc_flag(doc, "optimizer.params.adam_w_mode", true);
    if (adamw && !mode)
        return config_doc_fail(doc, "optimizer.params.adam_w_mode",
                               "is false and optimizer.type is \"AdamW\", expected true or \"Adam\"");
    const json_t *betas = config_doc_given(doc, "optimizer.params.betas");
    out->adam = (struct adam_hyper){
        // "auto" is the default of Hugging Face's trainers.
        .lr = config_doc_number(doc, LR, config_doc_is_auto(doc, LR) ? 5e-5 : 1e-3),
        .beta1 = betas ? json_number_value(json_array_get(betas, 0)) : 0.9,
        .beta2 = betas ? json_number_value(json_array_get(betas, 1)) : 0.999,
        .eps = config_doc_number(doc, "optimizer.params.eps", 1e-8),
        .weight_decay = config_doc_number(doc, "optimizer.params.weight_decay", 0),
        .decoupled = mode,
        .bias_correction = config_doc_flag(doc, "optimizer.params.bias_correction", true),
    };
    out->gradient_clipping = config_doc_number(doc, "gradient_clipping", 1);
    if (out->gradient_clipping != 0 && out->gradient_clipping < FLT_MIN)
        return config_doc_fail(doc, "gradient_clipping", "is %g, expected 0 (off) or at least %g",
                               out->gradient_clipping, (double)FLT_MIN);
    return ERR_NONE;
}

// Each type of scheduler has its own parameters.
static int refuse_foreign_params(const struct config_doc *doc, const char *type, bool cosine, bool total)
{
    static const struct {
        const char *path;
        bool cosine, linear, total;  // true: the type has the parameter
    } PARAMS[] = {
        {"scheduler.params.warmup_min_lr", false, true, true},
        {"scheduler.params.warmup_max_lr", false, true, true},
        {"scheduler.params.total_num_steps", true, false, true},
        {"scheduler.params.warmup_min_ratio", true, false, false},
        {"scheduler.params.cos_min_ratio", true, false, false},
    };
    for (size_t i = 0; i < sizeof PARAMS / sizeof *PARAMS; i++) {
        bool has = cosine ? PARAMS[i].cosine : total ? PARAMS[i].total : PARAMS[i].linear;
        if (!has && config_doc_value(doc, PARAMS[i].path))
            return config_doc_fail(doc, PARAMS[i].path, "is not a parameter of %s; remove it", type);
    }
    return ERR_NONE;
}

static int resolve_scheduler(const struct config_doc *doc, struct config *out)
{
    static const char TOTAL[] = "scheduler.params.total_num_steps", MAX[] = "scheduler.params.warmup_max_lr";
    struct config_scheduler *s = &out->scheduler;
    *s = (struct config_scheduler){.type = SCHEDULER_NONE};
    const json_t *section = config_doc_given(doc, "scheduler");
    if (!section || json_object_size(section) == 0)
        return ERR_NONE;
    const char *type = config_doc_string(doc, "scheduler.type", NULL);
    if (!type)
        return config_doc_fail(doc, "scheduler.type",
                               "missing, expected one of \"WarmupLR\", \"WarmupDecayLR\", "
                               "\"WarmupCosineLR\"");
    bool cosine = strcmp(type, "WarmupCosineLR") == 0, total = cosine || strcmp(type, "WarmupDecayLR") == 0;
    s->type = cosine ? SCHEDULER_WARMUP_COSINE : total ? SCHEDULER_WARMUP_DECAY : SCHEDULER_WARMUP;
    TRY(refuse_foreign_params(doc, type, cosine, total));
    s->warmup_num_steps = (uint64_t)config_doc_whole(doc, "scheduler.params.warmup_num_steps", 1000);
    s->warmup_linear = strcmp(config_doc_string(doc, "scheduler.params.warmup_type", "log"), "linear") == 0;
    if (cosine) {
        s->warmup_min_ratio = config_doc_number(doc, "scheduler.params.warmup_min_ratio", 0);
        s->cos_min_ratio = config_doc_number(doc, "scheduler.params.cos_min_ratio", 1e-4);
    } else {
        // The default of warmup_max_lr is WarmupDecayLR's own; WarmupLR uses the optimizer's lr.
        bool own = total && !config_doc_value(doc, MAX);
        s->warmup_min_lr = config_doc_number(doc, "scheduler.params.warmup_min_lr", 0);
        s->warmup_max_lr = config_doc_number(doc, MAX, own ? 1e-3 : out->adam.lr);
    }
    if (total) {
        uint64_t run = config_doc_is_auto(doc, TOTAL) ? doc->options->steps : 0;
        s->total_num_steps = (uint64_t)config_doc_whole(doc, TOTAL, (int64_t)run);
        if (s->total_num_steps == 0 && config_doc_is_auto(doc, TOTAL))
            return config_doc_fail(doc, TOTAL, "is \"auto\" in a run of unknown length, expected a number of steps");
        if (s->total_num_steps == 0)
            return config_doc_fail(doc, TOTAL, "missing, expected the number of steps");
    }
    return ERR_NONE;
}

// The keys of stage 3 have no effect in other stages, and stay at their defaults there.
static int resolve_zero(struct config_doc *doc, struct config *out)
{
    static const char ALLGATHER[] = "zero_optimization.allgather_bucket_size";
    struct {
        const char *path;
        size_t *value;
        int64_t fallback;
    } keys[] = {
        {"zero_optimization.stage3_prefetch_bucket_size", &out->prefetch_bucket_size, 50000000},
        {"zero_optimization.stage3_param_persistence_threshold", &out->param_persistence_threshold, 100000},
        {"zero_optimization.stage3_model_persistence_threshold", &out->model_persistence_threshold, INT64_MAX},
        {"zero_optimization.stage3_max_live_parameters", &out->max_live_parameters, 1000000000},
        {"zero_optimization.stage3_max_reuse_distance", &out->max_reuse_distance, 1000000000},
    };
    out->stage = (int)config_doc_whole(doc, "zero_optimization.stage", 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        *keys[i].value = (size_t)keys[i].fallback;
        if (out->stage == 3)
            *keys[i].value = config_doc_size(doc, keys[i].path, keys[i].fallback);
        else
            config_doc_ignore(doc, keys[i].path);
    }
    out->overlap_comm = config_doc_flag(doc, "zero_optimization.overlap_comm", out->stage == 3);
    out->contiguous_gradients = config_doc_flag(doc, "zero_optimization.contiguous_gradients", true);
    out->reduce_bucket_size = config_doc_size(doc, "zero_optimization.reduce_bucket_size", 500000000);
    out->allgather_bucket_size = config_doc_size(doc, ALLGATHER, 500000000);
    // A tensor larger than a bucket gets a bucket of its own, so sizes 0 and 1 are equivalent.
    if (out->reduce_bucket_size == 0)
        out->reduce_bucket_size = 1;
    if ((out->stage == 1 || out->stage == 2) && out->allgather_bucket_size % 2 != 0)
        return config_doc_fail(doc, ALLGATHER, "is %zu, expected an even number in stages 1 and 2, as in DeepSpeed",
                               out->allgather_bucket_size);
    return ERR_NONE;
}

int config_resolve(struct config_doc *doc, struct config *out)
{
    TRY(config_doc_check(doc));
    TRY(resolve_batch(doc, out));
    TRY(resolve_zero(doc, out));
    TRY(resolve_precision(doc, out));
    TRY(resolve_optimizer(doc, out));
    TRY(resolve_scheduler(doc, out));
    TRY(config_resolve_own(doc, out));
    TRY(config_resolve_offload(doc, out));
    return config_resolve_nvme(doc, out);
}
