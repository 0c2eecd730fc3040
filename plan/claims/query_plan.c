// SPDX-License-Identifier: Apache-2.0
// Quantities of a plan: runs plan_run for the model and configuration of a query, on rank 0.
#include "plan/claims/query.h"

#include "base/err.h"
#include "plan/claims/overlap.h"
#include "plan/claims/opaque_model.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"

#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 16, SET_BYTES = 128, WORLD_MAX = 100000, NAME_BYTES = 64 };

// A finished plan with its inputs.
struct planned {
    const struct model *model;
    struct opaque_model *opaque_model;  // owned; null where the model has a name
    struct config config;
    struct plan_machine machine;
    bool has_machine;
    int depth;  // number of enclosing expressions
    struct plan plan;
};

// Passes on the code of a call; adds the location of the key that caused it to the message.
static int at_key(int rc, const struct strict_object *o, const char *key)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_message());
    // A message that names the query's own file already has a location.
    return rc == ERR_USAGE && strncmp(why, o->file, strlen(o->file)) != 0 ? strict_fail(o, key, "%s", why) : rc;
}

static int expect_one(const struct strict_object *o, const char *a, const char *b, const char *expected)
{
    return query_has(o, a) != query_has(o, b) ? ERR_NONE
                                              : strict_fail(o, query_has(o, a) ? b : a, "expected either %s", expected);
}

static int read_model(const struct strict_object *o, struct planned *p)
{
    char name[MODEL_NAME_BYTES];
    double params;
    int layers = 1;
    TRY(expect_one(o, "model", "params", "the name of a model or a count of params"));
    if (query_has(o, "model")) {
        TRY(strict_string(o, "model", name, sizeof name));
        return at_key(plan_model_find(name, 1, &p->model), o, "model");
    }
    TRY(query_number(o, "params", p->depth, &params));
    if (!(params >= 1 && params <= 1e15))
        return strict_fail(o, "params", "is %g, expected 1 to 1e15 parameters", params);
    if (query_has(o, "layers"))
        TRY(strict_int(o, "layers", 1, OPAQUE_MODEL_LAYER_MAX, &layers));
    if (!(p->opaque_model = malloc(sizeof *p->opaque_model)))
        return err_set(ERR_MEMORY, "no memory to plan a model");
    opaque_model_make((uint64_t)params, layers, p->opaque_model);
    p->model = &p->opaque_model->model;
    return ERR_NONE;
}

// Reads the preset or configuration of a query, with its world and changes.
static int read_config(const struct strict_object *o, int *world, struct config *out)
{
    char accumulation[64], preset[NAME_BYTES];
    // The large layers of a model given by `params` would need millions of default buckets.
    const char *set[SET_MAX + 5] = {
        "train_micro_batch_size_per_gpu=1", accumulation, "zero_optimization.reduce_bucket_size=1073741824",
        "zero_optimization.allgather_bucket_size=1073741824", "zero_optimization.sub_group_size=1073741824"};
    size_t first = query_has(o, "params") ? 5 : 2, count = 0;
    const json_t *array, *config = json_object_get(o->value, "config");
    int micro_steps = 1;
    TRY(strict_int(o, "world", 1, WORLD_MAX, world));
    if (query_has(o, "accumulation"))
        TRY(strict_int(o, "accumulation", 1, 1 << 20, &micro_steps));
    snprintf(accumulation, sizeof accumulation, "gradient_accumulation_steps=%d", micro_steps);
    if (query_has(o, "set"))
        TRY(strict_array(o, "set", 0, SET_MAX, &array, &count));
    for (size_t i = 0; i < count; i++) {
        set[first + i] = json_string_value(json_array_get(array, i));
        if (!set[first + i] || strlen(set[first + i]) >= SET_BYTES)
            return strict_fail(o, "set", "element %zu is not a short string such as \"bf16.enabled=true\"", i);
    }
    const struct config_options options = {.world = *world,
                                           .set = set,
                                           .set_count = first + count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    TRY(expect_one(o, "preset", "config", "the name of a preset or a configuration"));
    if (!config) {
        size_t i = 0;
        TRY(strict_string(o, "preset", preset, sizeof preset));
        while (config_preset_name(i) && strcmp(config_preset_name(i), preset) != 0)
            i++;
        if (!config_preset_name(i))
            return strict_fail(o, "preset", "is '%s', which is not a preset; `zerogauge help presets` lists them",
                               preset);
        return config_load_preset(preset, &options, out, NULL);
    }
    // A string is the text of a configuration, which may be invalid JSON.
    char *text = json_is_string(config) ? strdup(json_string_value(config)) : json_dumps(config, JSON_COMPACT);
    int rc = text ? config_load_text("config", text, strlen(text), &options, out, NULL)
                  : err_set(ERR_MEMORY, "no memory for a configuration");
    free(text);
    return rc;
}

static int run_plan(const struct strict_object *e, const char *key, struct planned *p)
{
    static const char *const keys[] = {"world",   "?model",        "?params", "?layers",  "?preset",
                                       "?config", "?accumulation", "?set",    "?machine", NULL};
    struct strict_object o;
    char name[MACHINE_NAME_BYTES];
    int world;
    TRY(strict_object_of(e, key, &o));
    TRY(strict_keys(&o, keys));
    TRY(read_model(&o, p));
    if ((p->has_machine = query_has(&o, "machine"))) {
        TRY(strict_string(&o, "machine", name, sizeof name));
        TRY(at_key(plan_machine_find(name, &p->machine), &o, "machine"));
    }
    TRY(at_key(read_config(&o, &world, &p->config), &o, ""));
    // This key is only a limit, which a user raises for a large model.
    p->config.offload_param.buffer_size = SIZE_MAX;
    const struct plan_setting setting = {.config = &p->config,
                                         .model = p->model,
                                         .machine = p->has_machine ? &p->machine : NULL,
                                         .world = world,
                                         .keeps_events = true};
    return at_key(plan_run(&setting, &p->plan), &o, "");
}

static const char *tier_name(int i)
{
    return ledger_tier_name((enum ledger_tier)i);
}

// After the ledger's kinds comes "states", the papers' "model states".
static const char *kind_name(int i)
{
    return i == KIND_COUNT ? "states" : ledger_kind_name((enum ledger_kind)i);
}

static const char *lane_name(int i)
{
    return ledger_lane_name((enum lane)i);
}

static const char *operation_name(int i)
{
    return ledger_operation_name((enum ledger_operation)i);
}

// Reads the index of the word at a key; -1 if there is no such key.
static int read_word(const struct strict_object *e, const char *key, const char *(*name)(int), int count, int *out)
{
    const char *words[16] = {0};
    *out = -1;
    for (int i = 0; i < count; i++)
        words[i] = name(i);
    return query_has(e, key) ? strict_word(e, key, words, out) : ERR_NONE;
}

static int held_number(const struct strict_object *e, const struct planned *p, double *out)
{
    static const bool is_state[KIND_COUNT] = {
        [KIND_PARAMETER] = true, [KIND_GRADIENT] = true, [KIND_OPTIMIZER] = true, [KIND_MASTER] = true};
    int tier, kind;
    TRY(read_word(e, "tier", tier_name, TIER_COUNT, &tier));
    TRY(read_word(e, "kind", kind_name, KIND_COUNT + 1, &kind));
    for (int t = 0; t < TIER_COUNT; t++)
        for (int k = 0; k < KIND_COUNT; k++)
            if ((tier < 0 || t == tier) && (kind < 0 || k == kind || (kind == KIND_COUNT && is_state[k])))
                *out += (double)p->plan.held_bytes[t][k];
    return ERR_NONE;
}

static int moved_number(const struct strict_object *e, const struct planned *p, double *out)
{
    int lane, operation;
    TRY(read_word(e, "lane", lane_name, LANE_COUNT, &lane));
    TRY(read_word(e, "operation", operation_name, OPERATION_COUNT, &operation));
    for (int l = 0; l < LANE_COUNT; l++)
        for (int o = 0; o < OPERATION_COUNT; o++)
            if ((lane < 0 || l == lane) && (operation < 0 || o == operation))
                *out += (double)p->plan.step_bytes[l][o];
    return ERR_NONE;
}

// {"quantity": "overlap", "of": "Adam", "beside": "forward"}: operations, or lanes.
static int overlap_number(const struct strict_object *e, const struct planned *p, double *out)
{
    char of[NAME_BYTES], beside[NAME_BYTES];
    TRY(strict_string(e, "of", of, sizeof of));
    TRY(strict_string(e, "beside", beside, sizeof beside));
    return at_key(overlap_of(&p->plan, of, beside, out), e, "quantity");
}

static int quantity_number(const struct strict_object *e, const struct planned *p, double *out)
{
    enum { HELD, MOVED, OVERLAP, STEP, PARAMS, BUCKET, BLOCK };
    static const char *const words[] = {
        "held_bytes", "moved_bytes", "overlap", "step_s", "params", "reduce_bucket_elements", "aio_block_bytes", NULL};
    static const char *const per[] = {"param", NULL};
    const double params = (double)model_param_elements(p->model, false);
    const double values[] = {[STEP] = p->plan.step_s,
                             [PARAMS] = params,
                             [BUCKET] = (double)p->config.reduce_bucket_size,
                             [BLOCK] = (double)p->config.aio.block_bytes};
    int quantity, divisor;
    TRY(strict_word(e, "quantity", words, &quantity));
    if (!p->has_machine && (quantity == STEP || quantity == OVERLAP))
        return strict_fail(e, "plan.machine", "missing: without a machine operations take no time");
    *out = values[quantity];
    TRY(quantity == HELD      ? held_number(e, p, out)
        : quantity == MOVED   ? moved_number(e, p, out)
        : quantity == OVERLAP ? overlap_number(e, p, out)
                              : ERR_NONE);
    if (!query_has(e, "per"))
        return ERR_NONE;
    TRY(strict_word(e, "per", per, &divisor));
    *out /= params;
    return ERR_NONE;
}

int query_plan_number(const struct strict_object *e, const char *key, int depth, double *out)
{
    struct planned *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for a plan");
    p->depth = depth;
    int rc = run_plan(e, key, p);
    if (rc == ERR_NONE)
        rc = quantity_number(e, p, out);
    plan_free(&p->plan);
    free(p->opaque_model);
    free(p);
    return rc;
}

int query_accepts_number(const struct strict_object *e, const char *key, int depth, double *out)
{
    static const char *const keys[] = {"world", "?preset", "?config", "?accumulation", "?set", NULL};
    struct strict_object o;
    int world;
    (void)depth;
    TRY(strict_object_of(e, key, &o));
    TRY(strict_keys(&o, keys));
    struct config *config = malloc(sizeof *config);
    if (!config)
        return err_set(ERR_MEMORY, "no memory for a configuration");
    int rc = read_config(&o, &world, config);
    free(config);
    *out = rc == ERR_NONE;
    // A message about the configuration does not name the query's own file.
    return rc == ERR_USAGE && strncmp(err_message(), e->file, strlen(e->file)) != 0 ? ERR_NONE : rc;
}
