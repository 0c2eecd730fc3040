// SPDX-License-Identifier: Apache-2.0
// Resolves a configuration: defaults, the batch triple, precision, and contradictions between values.
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <float.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

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
    if (micro == 0 || accumulation == 0) {
        size_t least = ranks * (micro ? micro : 1) * (accumulation ? accumulation : 1);
        return config_doc_fail(doc, TRAIN, "is %zu, expected at least %zu: a sequence for each rank in each micro-step",
                               train, least);
    }
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

// Checked before all parameters: those of another optimizer are no mistakes of their own.
static int check_optimizer_type(const struct config_doc *doc)
{
    const json_t *type = config_doc_given(doc, "optimizer.type");
    char shown[TEXT_MESSAGE_BYTES];
    if (!json_is_string(type) || strcasecmp(json_string_value(type), "AdamW") == 0 ||
        strcasecmp(json_string_value(type), "Adam") == 0 || strcasecmp(json_string_value(type), "Muon") == 0)
        return ERR_NONE;
    return config_doc_fail(doc, "optimizer.type",
                           "is %s, expected \"Adam\", \"AdamW\" or \"Muon\": no other optimizer is supported",
                           json_message(shown, type));
}

// Keys of the learning rates and of Muon, by which DeepSpeed trains hidden matrices, and all else by AdamW.
static int resolve_muon(const struct config_doc *doc, struct config *out)
{
    static const char *const KEYS[] = {"muon_lr", "adam_lr", "momentum", "nesterov", "ns_steps", "adjust_lr_fn"};
    static const char ADJUST[] = "optimizer.params.adjust_lr_fn", MUON_LR[] = "optimizer.params.muon_lr";
    for (size_t i = 0; !out->uses_muon && i < sizeof KEYS / sizeof *KEYS; i++) {
        char path[64];
        snprintf(path, sizeof path, "optimizer.params.%s", KEYS[i]);
        if (config_doc_value(doc, path))
            return config_doc_fail(doc, path,
                                   "is a parameter of Muon alone; remove it, or write optimizer.type \"Muon\"");
    }
    if (!out->uses_muon)
        return ERR_NONE;
    bool original = strcmp(config_doc_string(doc, ADJUST, "original"), "original") == 0;
    out->muon = (struct muon_hyper){
        .lr = config_doc_number(doc, MUON_LR, out->adam.lr),
        .momentum = config_doc_number(doc, "optimizer.params.momentum", 0.95),
        .weight_decay = out->adam.weight_decay,
        .nesterov = config_doc_flag(doc, "optimizer.params.nesterov", true),
        .ns_steps = (int)config_doc_whole(doc, "optimizer.params.ns_steps", 5),
        .adjust = original ? MUON_ORIGINAL : MUON_MATCH_RMS_ADAMW,
    };
    out->adam.lr = config_doc_number(doc, "optimizer.params.adam_lr", out->adam.lr);
    if (out->muon.lr != out->adam.lr && config_doc_given(doc, "scheduler"))
        return config_doc_fail(doc, MUON_LR,
                               "gives hidden matrices another rate than adam_lr, and a scheduler has one rate "
                               "for all; expected one of the two");
    return ERR_NONE;
}

static int resolve_optimizer(const struct config_doc *doc, struct config *out)
{
    static const char LR[] = "optimizer.params.lr";
    const char *type = config_doc_string(doc, "optimizer.type", config_doc_given(doc, "optimizer") ? NULL : "Adam");
    if (!type)
        return config_doc_fail(doc, "optimizer.type", "missing, expected \"Adam\" or \"AdamW\"");
    out->uses_muon = strcasecmp(type, "Muon") == 0;
    bool adamw = strcasecmp(type, "AdamW") == 0 || out->uses_muon;
    // DeepSpeed's "Adam" is AdamW, too, unless adam_w_mode is false.
    bool mode = config_doc_flag(doc, "optimizer.params.adam_w_mode", true);
    if (adamw && !mode)
        return config_doc_fail(doc, "optimizer.params.adam_w_mode",
                               "is false and optimizer.type is \"%s\", expected true or \"Adam\"", type);
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
    TRY(resolve_muon(doc, out));
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
    static const char STEPS[] = "scheduler.params.warmup_num_steps";
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
    // Hugging Face's trainers have 0 such steps unless told, and pass on at least 1.
    s->warmup_num_steps = (uint64_t)config_doc_whole(doc, STEPS, config_doc_is_auto(doc, STEPS) ? 1 : 1000);
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

// The value where none is written; of "auto" that of Hugging Face's trainers, if they have one for the key.
static int64_t unless_given(const struct config_doc *doc, const char *path, int64_t fallback, double of_trainers)
{
    return of_trainers > 0 && config_doc_is_auto(doc, path) ? (int64_t)of_trainers : fallback;
}

// The keys of stage 3 have no effect in other stages, and stay at their defaults there.
static int resolve_zero(struct config_doc *doc, struct config *out)
{
    static const char ALLGATHER[] = "zero_optimization.allgather_bucket_size";
    static const char REDUCE[] = "zero_optimization.reduce_bucket_size";
    const double width = (double)doc->options->width;
    struct {
        const char *path;
        size_t *value;
        int64_t fallback;
        double of_trainers;  // elements; 0: as the fallback
    } keys[] = {
        {"zero_optimization.stage3_prefetch_bucket_size", &out->prefetch_bucket_size, 50000000, 0.9 * width * width},
        {"zero_optimization.stage3_param_persistence_threshold", &out->param_persistence_threshold, 100000, 10 * width},
        {"zero_optimization.stage3_model_persistence_threshold", &out->model_persistence_threshold, INT64_MAX, 0},
        {"zero_optimization.stage3_max_live_parameters", &out->max_live_parameters, 1000000000, 0},
        {"zero_optimization.stage3_max_reuse_distance", &out->max_reuse_distance, 1000000000, 0},
    };
    out->stage = (int)config_doc_whole(doc, "zero_optimization.stage", 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        *keys[i].value = (size_t)keys[i].fallback;
        if (out->stage == 3)
            *keys[i].value = config_doc_size(doc, keys[i].path,
                                             unless_given(doc, keys[i].path, keys[i].fallback, keys[i].of_trainers));
        else
            config_doc_ignore(doc, keys[i].path);
    }
    out->overlap_comm = config_doc_flag(doc, "zero_optimization.overlap_comm", out->stage == 3);
    out->contiguous_gradients = config_doc_flag(doc, "zero_optimization.contiguous_gradients", true);
    out->reduce_bucket_size = config_doc_size(doc, REDUCE, unless_given(doc, REDUCE, 500000000, width * width));
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
    TRY(check_optimizer_type(doc));
    TRY(config_doc_check(doc));
    TRY(resolve_batch(doc, out));
    TRY(resolve_zero(doc, out));
    TRY(config_resolve_precision(doc, out));
    TRY(config_resolve_states(doc, out));
    TRY(resolve_optimizer(doc, out));
    TRY(resolve_scheduler(doc, out));
    TRY(config_resolve_own(doc, out));
    TRY(config_resolve_offload(doc, out));
    return config_resolve_nvme(doc, out);
}
