// SPDX-License-Identifier: Apache-2.0
// Numbers of a plan: runs plan_run on rank 0 for the model and configuration that a query describes.
#include "plan/papers/query.h"

#include "base/err.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_print.h"

#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 16, PRESET_MAX = 16, WORLD_MAX = 100000 };

// A model of which only the parameter count is known, for papers that give no more: one layer of one tensor, without
// activations. It points into itself.
struct opaque_model {
    struct model model;
    struct model_param param;
    struct model_layer layer;
    int index;
};

static size_t run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    (void)model, (void)sequence_count, (void)dtype, (void)checkpointing;
    return 0;
}

static size_t checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    (void)model, (void)layer, (void)sequence_count;
    return 0;
}

static double layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    return 2 * (double)model->params[layer].count * (double)sequence_count;
}

static const struct model_operations opaque_operations = {
    .layer_flops = layer_flops, .run_bytes = run_bytes, .checkpoint_bytes = checkpoint_bytes};

static void opaque_model_make(uint64_t params, struct opaque_model *out)
{
    *out = (struct opaque_model){
        .param = {
            .name = "layer", .count = params, .shape = {params}, .shape_rank = 1, .used = true, .layer_count = 1}};
    out->layer = (struct model_layer){.name = out->param.name, .params = &out->index, .param_count = 1};
    out->model = (struct model){.name = "a model of one layer",
                                .params = &out->param,
                                .param_count = 1,
                                .layers = &out->layer,
                                .layer_count = 1,
                                .group_count = 1,
                                .sequence_length = 1,
                                .operations = &opaque_operations};
}

// A plan and what it is made of.
struct planned {
    struct config config;
    struct opaque_model opaque_model;
    struct plan_setting setting;
    struct plan plan;
};

// Adds the location of a key to the message of a call that failed, and passes its code on.
static int at_key(int rc, const struct strict_object *o, const char *key)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_message());
    return rc == ERR_USAGE ? strict_fail(o, key, "%s", why) : rc;
}

static int read_model(const struct strict_object *o, struct planned *p)
{
    char name[MODEL_NAME_BYTES];
    double params;
    if (query_has(o, "model")) {
        TRY(strict_string(o, "model", name, sizeof name));
        return at_key(plan_model_find(name, p->config.tiling_factor, &p->setting.model), o, "model");
    }
    TRY(strict_real(o, "params", &params));
    if (!(params >= 1 && params <= 1e15))
        return strict_fail(o, "params", "is %g, expected 1 to 1e15 parameters", params);
    opaque_model_make((uint64_t)params, &p->opaque_model);
    p->setting.model = &p->opaque_model.model;
    return ERR_NONE;
}

// Loads the preset with its changes.
static int read_config(const struct strict_object *o, struct planned *p)
{
    // The large layer of a model given by `params` would need millions of default buckets.
    const char *set[SET_MAX + 5] = {"train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=1",
                                    "zero_optimization.reduce_bucket_size=1073741824",
                                    "zero_optimization.allgather_bucket_size=1073741824",
                                    "zero_optimization.sub_group_size=1073741824"};
    const char *presets[PRESET_MAX + 1] = {0};
    size_t first = query_has(o, "params") ? 5 : 2, count = 0;
    const json_t *array;
    int preset = 0;
    for (size_t i = 0; i < PRESET_MAX; i++)
        presets[i] = i > 0 && !presets[i - 1] ? NULL : config_preset_name(i);
    TRY(strict_int(o, "world", 1, WORLD_MAX, &p->setting.world));
    TRY(strict_word(o, "preset", presets, &preset));
    if (query_has(o, "set"))
        TRY(strict_array(o, "set", 0, SET_MAX, &array, &count));
    for (size_t i = 0; i < count; i++)
        if (!(set[first + i] = json_string_value(json_array_get(array, i))))
            return strict_fail(o, "set", "element %zu is not a string such as \"bf16.enabled=true\"", i);
    const struct config_options options = {.world = p->setting.world,
                                           .set = set,
                                           .set_count = first + count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    TRY(at_key(config_load_preset(presets[preset], &options, &p->config, NULL), o, ""));
    // This key is only a limit, which a user raises for a large model.
    p->config.offload_param.buffer_size = SIZE_MAX;
    p->setting.config = &p->config;
    return ERR_NONE;
}

// Adds up the whole numbers at a path, in which "*" matches every name; returns how many.
static int sum_at(const json_t *value, const char *path, double *sum)
{
    size_t length = strcspn(path, ".");
    int count = !*path && json_is_integer(value);
    const char *key;
    json_t *member;
    if (count > 0)
        *sum += json_number_value(value);
    json_object_foreach ((json_t *)(uintptr_t)value, key, member)
        if (*path == '*' || (strlen(key) == length && strncmp(path, key, length) == 0))
            count += sum_at(member, path + length + (path[length] == '.'), sum);
    return count;
}

static int evaluate(const struct strict_object *o, const char *path, struct planned *p, double *out)
{
    TRY(strict_only(o, query_has(o, "model") ? "world model preset ?set" : "world params preset ?set"));
    TRY(read_config(o, p));
    TRY(read_model(o, p));
    TRY(at_key(plan_run(&p->setting, &p->plan), o, ""));
    json_t *plan = plan_json(&p->setting, &p->plan);
    *out = 0;
    int count = sum_at(plan, path, out);
    json_decref(plan);
    return count > 0 ? ERR_NONE
                     : strict_fail(o, "", "has no whole number at '%s'; `zerogauge plan --json` shows all", path);
}

int query_plan_number(const struct strict_object *plan, const char *path, double *out)
{
    struct planned *p = calloc(1, sizeof *p);
    int rc = p ? evaluate(plan, path, p, out) : err_set(ERR_MEMORY, "no memory for a plan");
    free(p);
    return rc;
}
