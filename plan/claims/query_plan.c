// SPDX-License-Identifier: Apache-2.0
// Numbers of a plan: runs plan_run on rank 0 for the model and configuration that a query describes.
#include "plan/claims/query.h"

#include "base/err.h"
#include "plan/claims/overlap.h"
#include "plan/claims/opaque_model.h"
#include "plan/planner/plan_llama.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_print.h"

#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 16, PRESET_MAX = 16, WORLD_MAX = 100000, LORA_RANK_MAX = 65536 };

// A plan and what it is made of.
struct planned {
    struct config config;
    bool accepted;  // the configuration is
    struct opaque_model opaque_model;
    struct plan_machine machine;
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

static int read_variant(const struct strict_object *o, struct plan_model_variant *out)
{
    if (query_has(o, "lora"))
        TRY(strict_size(o, "lora", LORA_RANK_MAX, &out->lora_rank));
    return query_has(o, "sequence_length") ? strict_size(o, "sequence_length", LLAMA_SIZE_MAX, &out->sequence_length)
                                           : ERR_NONE;
}

static int read_model(const struct strict_object *o, struct planned *p)
{
    char name[MODEL_NAME_BYTES];
    double params;
    int layers = 1;
    if (query_has(o, "model")) {
        struct plan_model_variant variant = {.tiling_factor = p->config.tiling_factor,
                                             .tensor = p->config.mesh.tensor > 1 ? (size_t)p->config.mesh.tensor : 0};
        TRY(strict_string(o, "model", name, sizeof name));
        TRY(read_variant(o, &variant));
        return at_key(plan_model_find_variant(name, &variant, &p->setting.model), o, "model");
    }
    TRY(strict_real(o, "params", &params));
    if (!(params >= 1 && params <= 1e15))
        return strict_fail(o, "params", "is %g, expected 1 to 1e15 parameters", params);
    if (query_has(o, "layers"))
        TRY(strict_int(o, "layers", 1, OPAQUE_MODEL_LAYER_MAX, &layers));
    opaque_model_make((uint64_t)params, layers, &p->opaque_model);
    p->setting.model = &p->opaque_model.model;
    return ERR_NONE;
}

// Loads the preset or configuration with its changes. A refused one is no error: its message says why.
static int read_config(const struct strict_object *o, struct planned *p)
{
    // The large layers of a model given by `params` would need millions of default buckets.
    const char *set[SET_MAX + 5] = {"train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=1",
                                    "zero_optimization.reduce_bucket_size=1073741824",
                                    "zero_optimization.allgather_bucket_size=1073741824",
                                    "zero_optimization.sub_group_size=1073741824"};
    const char *presets[PRESET_MAX + 1] = {0};
    size_t first = query_has(o, "params") ? 5 : 2, count = 0;
    const char *text = NULL;
    const json_t *array;
    int preset = 0;
    for (size_t i = 0; i < PRESET_MAX; i++)
        presets[i] = i > 0 && !presets[i - 1] ? NULL : config_preset_name(i);
    TRY(strict_int(o, "world", 1, WORLD_MAX, &p->setting.world));
    TRY(query_has(o, "config") ? strict_text(o, "config", &text) : strict_word(o, "preset", presets, &preset));
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
    int rc = text ? config_load_text("config", text, strlen(text), &options, &p->config, NULL)
                  : config_load_preset(presets[preset], &options, &p->config, NULL);
    p->accepted = rc == ERR_NONE;
    return rc == ERR_USAGE ? ERR_NONE : rc;
}

static int run_plan(const struct strict_object *o, struct planned *p)
{
    char name[MACHINE_NAME_BYTES];
    if (!p->accepted)
        return at_key(ERR_USAGE, o, "");
    TRY(read_model(o, p));
    if (query_has(o, "machine")) {
        TRY(strict_string(o, "machine", name, sizeof name));
        TRY(at_key(plan_machine_find(name, &p->machine), o, "machine"));
        p->setting.machine = &p->machine;
    }
    // This key is only a limit, which a user raises for a large model.
    p->config.offload_param.buffer_size = SIZE_MAX;
    p->setting.config = &p->config;
    p->setting.keeps_events = true;
    return at_key(plan_run(&p->setting, &p->plan), o, "");
}

// Adds up the numbers at a path, in which "*" matches every name; returns how many. Those that are not whole are
// times and rates.
static int sum_at(const json_t *value, const char *path, bool has_times, double *sum)
{
    size_t length = strcspn(path, ".");
    int count = !*path && (json_is_integer(value) || (has_times && json_is_real(value)));
    const char *key;
    json_t *member;
    if (count > 0)
        *sum += json_number_value(value);
    json_object_foreach ((json_t *)(uintptr_t)value, key, member)
        if (*path == '*' || (strlen(key) == length && strncmp(path, key, length) == 0))
            count += sum_at(member, path + length + (path[length] == '.'), has_times, sum);
    return count;
}

// The path behind "overlap.": the names of operations or lanes.
static int overlap_at(const struct plan *plan, const char *path, double *out)
{
    char text[EXPRESSION_PATH_BYTES], *rest = text;
    const char *names[OVERLAP_NAME_MAX];
    int count = 0;
    snprintf(text, sizeof text, "%s", path);
    for (char *name; (name = strsep(&rest, ".")); count++) {
        if (count == OVERLAP_NAME_MAX)
            return err_set(ERR_USAGE, "overlap of more than %d names", OVERLAP_NAME_MAX);
        names[count] = name;
    }
    if (count < 2)
        return err_set(ERR_USAGE, "overlap of one name, expected overlap.OF.BESIDE");
    return overlap_of(plan, names, count, out);
}

static int evaluate(const struct strict_object *o, const char *path, struct planned *p, double *out)
{
    bool named = query_has(o, "model"), own = query_has(o, "config");
    const char *const keys[] = {"world",    named ? "model" : "?params", own ? "config" : "preset",         "?set",
                                "?machine", named ? "?lora" : "?layers", named ? "?sequence_length" : NULL, NULL};
    TRY(strict_keys(o, keys));
    TRY(read_config(o, p));
    *out = p->accepted;
    if (strcmp(path, "accepted") == 0)
        return ERR_NONE;
    TRY(run_plan(o, p));
    if (strncmp(path, "overlap.", strlen("overlap.")) == 0)
        return at_key(overlap_at(&p->plan, path + strlen("overlap."), out), o, "");
    json_t *plan = plan_json(&p->setting, &p->plan);
    *out = 0;
    json_object_set_new(plan, "config", config_json(&p->config));
    int count = sum_at(plan, path, p->setting.machine || strncmp(path, "config.", 7) == 0, out);
    json_decref(plan);
    return count > 0 ? ERR_NONE
                     : strict_fail(o, "", "has no number at '%s'; `zerogauge plan --json` shows all%s", path,
                                   p->setting.machine ? "" : ", of which a plan without a machine has no times");
}

int query_plan_number(const struct strict_object *plan, const char *path, double *out)
{
    struct planned *p = calloc(1, sizeof *p);
    int rc = p ? evaluate(plan, path, p, out) : err_set(ERR_MEMORY, "no memory for a plan");
    if (p)
        plan_free(&p->plan);
    free(p);
    return rc;
}
