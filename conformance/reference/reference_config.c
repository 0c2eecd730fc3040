// SPDX-License-Identifier: Apache-2.0
// A case's configuration as DeepSpeed JSON, and what that has no key for.
#include "conformance/reference/reference.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "ref/recipe/recipe.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *loss_scale_section(const struct case_loss_scale *scale)
{
    if (scale->kind != SCALE_DYNAMIC)
        return json_pack("{s:b, s:f}", "enabled", 1, "loss_scale", scale->kind == SCALE_STATIC ? scale->scale : 1.0);
    return json_pack("{s:b, s:f, s:f, s:I, s:I, s:f}", "enabled", 1, "loss_scale", 0.0, "initial_scale_power",
                     log2(scale->scale), "loss_scale_window", (json_int_t)scale->window, "hysteresis",
                     (json_int_t)scale->hysteresis, "min_loss_scale", scale->min_scale);
}

static json_t *optimizer_section(const struct case_group *group)
{
    if (group->muon)
        return json_pack("{s:s, s:{s:f, s:f, s:b, s:i, s:s, s:f}}", "type", "Muon", "params", "lr", group->lr[0],
                         "momentum", group->beta1, "nesterov", (int)group->nesterov, "ns_steps", group->ns_steps,
                         "adjust_lr_fn", group->matches_adamw ? "match_rms_adamw" : "original", "weight_decay",
                         group->weight_decay);
    return json_pack("{s:s, s:{s:f, s:[f, f], s:f, s:f, s:b, s:b}}", "type", group->decoupled ? "AdamW" : "Adam",
                     "params", "lr", group->lr[0], "betas", group->beta1, group->beta2, "eps", group->eps,
                     "weight_decay", group->weight_decay, "bias_correction", (int)group->bias_correction, "adam_w_mode",
                     (int)group->decoupled);
}

// Buckets are hints: each becomes the nearest value that the key takes.
static size_t at_least(size_t value, size_t least)
{
    return value > least ? value : least;
}

// Without prefetch, parameters of up to this many elements stay gathered, so that those cases cover persistence.
enum { PERSISTENT_COUNT = 40 };

static json_t *zero_section(const struct check_case *c)
{
    size_t elements = 1;
    for (int i = 0; i < c->param_count; i++)
        elements += c->params[i].count;
    json_t *section = json_pack("{s:i, s:b, s:b, s:I, s:I, s:I}", "stage", c->stage, "overlap_comm", (int)c->overlap,
                                "contiguous_gradients", (int)c->contiguous_gradients, "reduce_bucket_size",
                                (json_int_t)c->reduce_bucket, "allgather_bucket_size",
                                (json_int_t)at_least(c->allgather_bucket + c->allgather_bucket % 2, 2),
                                "sub_group_size", (json_int_t)at_least(c->sub_group, 1));
    if (c->stage == 3) {
        json_object_set_new(section, "stage3_prefetch_bucket_size", json_integer((json_int_t)c->prefetch_bucket));
        json_object_set_new(section, "stage3_param_persistence_threshold",
                            json_integer(c->prefetch_bucket > 0 || c->gathers_e4m3 ? 0 : PERSISTENT_COUNT));
        json_object_set_new(section, "zero_quantized_weights", json_boolean(c->gathers_e4m3));
        // As far as layers are gathered ahead, they are kept for their next use.
        json_object_set_new(section, "stage3_max_reuse_distance", json_integer((json_int_t)c->prefetch_bucket));
    }
    if (c->offload_optimizer != TIER_DEVICE)
        json_object_set_new(
            section, "offload_optimizer",
            json_pack("{s:s, s:b}", "device", config_device_name(c->offload_optimizer), "pin_memory", 0));
    if (c->offload_param != TIER_DEVICE)
        json_object_set_new(section, "offload_param",
                            json_pack("{s:s, s:b, s:I}", "device", config_device_name(c->offload_param), "pin_memory",
                                      0, "buffer_size", (json_int_t)elements));
    return section;
}

bool reference_cuts_model(const struct check_case *c)
{
    return c->mesh.tensor > 1 || c->mesh.pipeline > 1 || c->mesh.expert > 1;
}

static json_t *own_section(const struct check_case *c, const char *recipe, const struct reference_options *options,
                           int before_steps)
{
    json_t *section = json_pack("{s:s, s:s}", "recipe", recipe, "clip_form",
                                options->clip_form == CLIP_TORCH ? "torch" : "deepspeed");
    struct rule_states states = rule_states_of(c, &options->states);
    json_object_set_new(section, "master_dtype", json_string(dtype_name(states.master)));
    json_object_set_new(section, "moment_dtype", json_string(dtype_name(states.moments)));
    if (options->reduction_group > 0 && c->world % options->reduction_group == 0)
        json_object_set_new(section, "reduction_group", json_integer(options->reduction_group));
    if (c->gathers_e4m3)
        json_object_set_new(section, "quantized_weights_format", json_string("e4m3"));
    char mesh[MESH_TEXT_BYTES];
    // Stage 0 partitions nothing: it is data parallelism over all ranks.
    if (case_has_mesh(c) && c->stage > 0 && !reference_cuts_model(c))
        json_object_set_new(section, "mesh", json_string(mesh_text(&c->mesh, mesh)));
    int start = c->delayed_update > before_steps ? c->delayed_update - before_steps : 1;
    if (c->delayed_update > 0)
        json_object_set_new(section, "delayed_update", json_pack("{s:i}", "start_step", start));
    return section;
}

// precision in place of the case's, whose other dtypes may not go with that; one optimizer group.
static json_t *document(const struct check_case *c, enum dtype precision, const struct case_group *group, json_t *own)
{
    bool same = precision == c->precision;
    enum dtype communication = same ? c->communication_dtype : DTYPE_FP32;
    enum dtype accumulation = same ? c->accumulation_dtype : DTYPE_FP32;
    json_t *root = json_pack("{s:i, s:i, s:f, s:s, s:{s:s}, s:o, s:o, s:o}", "train_micro_batch_size_per_gpu", 1,
                             "gradient_accumulation_steps", c->accumulation, "gradient_clipping", c->gradient_clipping,
                             "communication_data_type", dtype_name(communication), "data_types", "grad_accum_dtype",
                             dtype_name(accumulation), "zero_optimization", zero_section(c), "optimizer",
                             optimizer_section(group), "zerogauge", own);
    if (!same)
        json_object_del(own, "master_dtype");
    if (precision == DTYPE_FP16)
        json_object_set_new(root, "fp16", loss_scale_section(&c->loss_scale));
    if (precision == DTYPE_BF16)
        json_object_set_new(root, "bf16",
                            json_pack("{s:b, s:b}", "enabled", 1, "check_grad_overflow", (int)c->overflow_check));
    return root;
}

static int load(const struct check_case *c, json_t *root, const char *nvme_path, struct config *out)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        return err_set(ERR_USAGE, "%s: its configuration has a number or a name that JSON cannot represent", c->name);
    const char *const paths[] = {nvme_path};
    const struct config_options options = {
        .world = c->world,
        .steps = (uint64_t)c->steps,
        .nvme_paths = paths,
        .nvme_path_count = nvme_path ? 1 : 0,
    };
    int rc = config_load_text(c->name, text, strlen(text), &options, out, NULL);
    free(text);
    return rc;
}

// Declines loss scales that DeepSpeed's keys cannot express.
static int check_loss_scale(const struct check_case *c, bool *unsupported)
{
    const struct case_loss_scale *scale = &c->loss_scale;
    int power;
    if (scale->kind != SCALE_NONE && !(scale->scale > 0 && isfinite(scale->scale)))
        return err_set(ERR_USAGE, "%s: the loss scale is %g, expected a positive number", c->name, scale->scale);
    if (scale->kind != SCALE_DYNAMIC)
        return ERR_NONE;
    *unsupported = true;
    if (frexp(scale->scale, &power) != 0.5)
        return err_set(ERR_USAGE, "the initial dynamic loss scale must be a power of 2, not %g", scale->scale);
    if (scale->min_scale != trunc(scale->min_scale))
        return err_set(ERR_USAGE, "the minimum loss scale must be a whole number, not %g", scale->min_scale);
    *unsupported = false;
    return ERR_NONE;
}

static int check_groups(const struct check_case *c, const struct reference_config *r, bool *unsupported)
{
    for (int i = 0; i < c->group_count; i++) {
        for (int step = 0; c->groups[i].lr_by_step && step < c->steps; step++)
            if (!(c->groups[i].lr[step] >= 0 && isfinite(c->groups[i].lr[step])))
                return err_set(ERR_USAGE, "%s: groups[%d].lr of step %d is %g, expected at least 0", c->name, i,
                               step + 1, c->groups[i].lr[step]);
        struct recipe_state state = {0};
        struct adam_scalars scalars;
        int rc = recipe_begin_step(recipe_find(r->config.recipe), &r->groups[i].adam, 1, &state, &scalars);
        *unsupported = rc != ERR_NONE;
        TRY(rc);
    }
    return ERR_NONE;
}

static const char *recipe_for(const struct check_case *c, const struct reference_options *options)
{
    bool corrects = true;
    for (int i = 0; i < c->group_count; i++)
        corrects &= c->groups[i].bias_correction;
    return options->recipe ? options->recipe : corrects ? "torch-cpu" : "deepspeed-cpu-clang";
}

int reference_config(const struct check_case *c, const struct reference_options *options, const char *nvme_path,
                     int before_steps, struct reference_config *out, bool *unsupported)
{
    const char *recipe = recipe_for(c, options);
    struct config other;
    *unsupported = false;
    TRY(check_loss_scale(c, unsupported));
    // Each group is a configuration; the first group provides all other settings.
    for (int i = 0; i < c->group_count; i++) {
        json_t *own = own_section(c, recipe, options, before_steps);
        struct config *config = i == 0 ? &out->config : &other;
        TRY(load(c, document(c, c->precision, &c->groups[i], own), nvme_path, config));
        out->groups[i] =
            (struct config_group){.adam = config->adam,
                                  .muon = config->muon,
                                  .lr_by_step = c->groups[i].lr_by_step ? c->groups[i].lr + before_steps : NULL};
    }
    TRY(check_groups(c, out, unsupported));
    struct config *config = &out->config;
    // DeepSpeed scales the loss, and looks for overflow, by precision; here any precision can have both.
    if (c->precision != DTYPE_FP16 && c->loss_scale.kind != SCALE_NONE) {
        json_t *own = own_section(c, recipe, options, before_steps);
        TRY(load(c, document(c, DTYPE_FP16, &c->groups[0], own), nvme_path, &other));
        config->loss_scale = other.loss_scale;
    }
    config->check_overflow = c->overflow_check;
    config->groups = out->groups;
    // A linear loss has no batch. One number at every world lets a checkpoint be taken up at another one.
    config->train_batch = 1;
    return ERR_NONE;
}
