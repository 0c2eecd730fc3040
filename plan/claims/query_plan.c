// SPDX-License-Identifier: Apache-2.0
// What a plan holds, moves and takes: plan_run for the model and configuration of a query, as rank 0 has it.
#include "plan/claims/query.h"

#include "base/err.h"
#include "plan/claims/overlap.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"
#include "plan/claims/opaque_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 16, SET_BYTES = 128, WORLD_MAX = 100000, NAME_BYTES = 64 };

// A plan that has been run, and all that it stands on.
struct planned {
    const struct model *model;
    struct opaque_model *opaque_model;  // owned; null where the model has a name
    struct config config;
    struct plan_machine machine;
    bool has_machine;
    struct plan plan;
};

// Whether the message is about the query's own file, and not about the configuration.
static bool is_of_file(const struct strict_object *o)
{
    return strncmp(err_message(), o->file, strlen(o->file)) == 0;
}

static int read_model(const struct strict_object *o, struct planned *p)
{
    bool named = json_object_get(o->value, "model");
    if (named == !!json_object_get(o->value, "params"))
        return strict_fail(o, named ? "params" : "model", "expected either the name of a model or a count of params");
    if (named) {
        char name[MODEL_NAME_BYTES];
        TRY(strict_string(o, "model", name, sizeof name));
        int rc = plan_model_find(name, 1, &p->model);
        char why[256];
        snprintf(why, sizeof why, "%s", err_message());
        return rc == ERR_USAGE ? strict_fail(o, "model", "%s", why) : rc;
    }
    double params;
    int layers = 1;
    TRY(query_number(o, "params", &params));
    if (!(params >= 1 && params <= 1e15))
        return strict_fail(o, "params", "is %g, expected 1 to 1e15 parameters", params);
    if (json_object_get(o->value, "layers"))
        TRY(strict_int(o, "layers", 1, OPAQUE_MODEL_LAYER_MAX, &layers));
    if (!(p->opaque_model = malloc(sizeof *p->opaque_model)))
        return err_set(ERR_MEMORY, "no memory to plan a model");
    opaque_model_make((uint64_t)params, layers, p->opaque_model);
    p->model = &p->opaque_model->model;
    return ERR_NONE;
}

// The plan's preset with what is set, or its own configuration.
static int read_config(const struct strict_object *o, int world, struct config *out)
{
    // Without a model, pieces are large: an opaque model's one layer would be cut in millions.
    static const char *const whole[] = {"zero_optimization.reduce_bucket_size=1073741824",
                                        "zero_optimization.allgather_bucket_size=1073741824",
                                        "zero_optimization.sub_group_size=1073741824"};
    static const char *const path[] = {"."};
    char accumulation[64], texts[SET_MAX][SET_BYTES];
    const char *set[SET_MAX + 5] = {"train_micro_batch_size_per_gpu=1", accumulation, whole[0], whole[1], whole[2]};
    size_t first = json_object_get(o->value, "params") ? 5 : 2, count = 0;
    int micro_steps = 1;
    if (json_object_get(o->value, "accumulation"))
        TRY(strict_int(o, "accumulation", 1, 1 << 20, &micro_steps));
    snprintf(accumulation, sizeof accumulation, "gradient_accumulation_steps=%d", micro_steps);
    if (json_object_get(o->value, "set")) {
        const json_t *array;
        TRY(strict_array(o, "set", 0, SET_MAX, &array, &count));
        for (size_t i = 0; i < count; i++) {
            const char *text = json_string_value(json_array_get(array, i));
            if (!text || strlen(text) >= sizeof texts[i])
                return strict_fail(o, "set", "element %zu is not a short string such as \"bf16.enabled=true\"", i);
            set[first + i] = strcpy(texts[i], text);
        }
    }
    const struct config_options options = {
        .world = world, .set = set, .set_count = first + count, .nvme_paths = path, .nvme_path_count = 1};
    char preset[NAME_BYTES] = "";
    bool named = json_object_get(o->value, "preset");
    if (named == !!json_object_get(o->value, "config"))
        return strict_fail(o, named ? "config" : "preset", "expected either the name of a preset or a configuration");
    if (named) {
        size_t i = 0;
        TRY(strict_string(o, "preset", preset, sizeof preset));
        while (config_preset_name(i) && strcmp(config_preset_name(i), preset) != 0)
            i++;
        if (!config_preset_name(i))
            return strict_fail(o, "preset", "is '%s', which is no preset; `zerogauge help presets` lists them", preset);
        return config_load_preset(preset, &options, out, NULL);
    }
    // A string is a configuration's text as it is written.
    const json_t *config = json_object_get(o->value, "config");
    char *text = json_is_string(config) ? strdup(json_string_value(config)) : json_dumps(config, JSON_COMPACT);
    int rc = text ? config_load_text("config", text, strlen(text), &options, out, NULL)
                  : err_set(ERR_MEMORY, "no memory for a configuration");
    free(text);
    return rc;
}

static const char *const PLAN_KEYS[] = {"world",   "?model",        "?params", "?layers",  "?preset",
                                        "?config", "?accumulation", "?set",    "?machine", NULL};

static int read_machine(const struct strict_object *o, struct planned *p)
{
    char name[MACHINE_NAME_BYTES], why[SET_BYTES * 4];
    if (!(p->has_machine = json_object_get(o->value, "machine")))
        return ERR_NONE;
    TRY(strict_string(o, "machine", name, sizeof name));
    int rc = plan_machine_find(name, &p->machine);
    snprintf(why, sizeof why, "%s", err_message());
    return rc == ERR_USAGE ? strict_fail(o, "machine", "%s", why) : rc;
}

static int run_plan(const struct strict_object *e, struct planned *p)
{
    struct strict_object o;
    int world;
    TRY(strict_object_of(e, "plan", &o));
    TRY(strict_keys(&o, PLAN_KEYS));
    TRY(strict_int(&o, "world", 1, WORLD_MAX, &world));
    TRY(read_model(&o, p));
    TRY(read_machine(&o, p));
    int rc = read_config(&o, world, &p->config);
    if (rc == ERR_NONE) {
        // A limit alone, which a user raises for a large model.
        p->config.offload_param.buffer_size = SIZE_MAX;
        rc = plan_run(&(struct plan_setting){.config = &p->config,
                                             .model = p->model,
                                             .machine = p->has_machine ? &p->machine : NULL,
                                             .world = world,
                                             .keeps_events = true},
                      &p->plan);
    }
    if (rc != ERR_USAGE || is_of_file(&o))
        return rc;
    char why[512];
    snprintf(why, sizeof why, "%s", err_message());
    return strict_fail(&o, "", "%s", why);
}

// The index of the word at a key; -1 where the key is not there.
static int read_word(const struct strict_object *e, const char *key, const char *(*name)(int), int count, int *out)
{
    const char *words[16] = {0};
    *out = -1;
    if (!json_object_get(e->value, key))
        return ERR_NONE;
    for (int i = 0; i < count; i++)
        words[i] = name(i);
    return strict_word(e, key, words, out);
}

static const char *tier_name(int i)
{
    return ledger_tier_name((enum ledger_tier)i);
}

// What the papers call model states comes behind the kinds of the ledger.
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

static bool is_of_kind(int kind, int asked)
{
    bool state = kind == KIND_PARAMETER || kind == KIND_GRADIENT || kind == KIND_OPTIMIZER || kind == KIND_MASTER;
    return asked < 0 || (asked == KIND_COUNT ? state : kind == asked);
}

static int held_number(const struct strict_object *e, const struct planned *p, double *out)
{
    int tier, kind;
    TRY(read_word(e, "tier", tier_name, TIER_COUNT, &tier));
    TRY(read_word(e, "kind", kind_name, KIND_COUNT + 1, &kind));
    *out = 0;
    for (int t = 0; t < TIER_COUNT; t++)
        for (int k = 0; k < KIND_COUNT; k++)
            if ((tier < 0 || t == tier) && is_of_kind(k, kind))
                *out += (double)p->plan.held_bytes[t][k];
    return ERR_NONE;
}

static int moved_number(const struct strict_object *e, const struct planned *p, double *out)
{
    int lane, operation;
    TRY(read_word(e, "lane", lane_name, LANE_COUNT, &lane));
    TRY(read_word(e, "operation", operation_name, OPERATION_COUNT, &operation));
    *out = 0;
    for (int l = 0; l < LANE_COUNT; l++)
        for (int o = 0; o < OPERATION_COUNT; o++)
            if ((lane < 0 || l == lane) && (operation < 0 || o == operation))
                *out += (double)p->plan.step_bytes[l][o];
    return ERR_NONE;
}

static int params_number(const struct strict_object *e, const struct planned *p, double *out)
{
    (void)e;
    *out = (double)model_param_elements(p->model, false);
    return ERR_NONE;
}

static int bucket_number(const struct strict_object *e, const struct planned *p, double *out)
{
    (void)e;
    *out = (double)p->config.reduce_bucket_size;
    return ERR_NONE;
}

static int block_number(const struct strict_object *e, const struct planned *p, double *out)
{
    (void)e;
    *out = (double)p->config.aio.block_bytes;
    return ERR_NONE;
}

static const char *purpose_name(int i)
{
    static const char *const names[] = {"reduce", "gather"};
    return names[i];
}

// By collectives, for gradients and parameters; what a run tells itself besides is left out.
static int sent_number(const struct strict_object *e, const struct planned *p, double *out)
{
    int purpose;
    TRY(read_word(e, "purpose", purpose_name, 2, &purpose));
    *out = 0;
    if (purpose != 1)
        *out += (double)p->plan.step_sent_bytes[PURPOSE_REDUCE];
    if (purpose != 0)
        *out += (double)p->plan.step_sent_bytes[PURPOSE_GATHER];
    return ERR_NONE;
}

static int demand_machine(const struct strict_object *e, const struct planned *p)
{
    return p->has_machine ? ERR_NONE : strict_fail(e, "plan.machine", "missing: nothing takes time without one");
}

static int step_number(const struct strict_object *e, const struct planned *p, double *out)
{
    *out = p->plan.step_s;
    return demand_machine(e, p);
}

// {"quantity": "overlap", "of": "Adam", "beside": "forward"}: operations, or lanes.
static int overlap_number(const struct strict_object *e, const struct planned *p, double *out)
{
    char of[NAME_BYTES], beside[NAME_BYTES], why[SET_BYTES];
    TRY(demand_machine(e, p));
    TRY(strict_string(e, "of", of, sizeof of));
    TRY(strict_string(e, "beside", beside, sizeof beside));
    int rc = overlap_of(&p->plan, of, beside, out);
    snprintf(why, sizeof why, "%s", err_message());
    return rc == ERR_USAGE ? strict_fail(e, "quantity", "%s", why) : rc;
}

static const struct quantity {
    const char *name;
    int (*number)(const struct strict_object *e, const struct planned *p, double *out);
} quantities[] = {
    {"held_bytes", held_number},
    {"moved_bytes", moved_number},
    {"sent_bytes", sent_number},
    {"step_s", step_number},
    {"overlap", overlap_number},
    {"params", params_number},
    {"reduce_bucket_elements", bucket_number},
    {"aio_block_bytes", block_number},
};
enum { QUANTITY_COUNT = sizeof quantities / sizeof quantities[0] };

static int quantity_number(const struct strict_object *e, const struct planned *p, double *out)
{
    const char *words[QUANTITY_COUNT + 1] = {0};
    static const char *const per[] = {"param", NULL};
    int i, divisor;
    for (i = 0; i < QUANTITY_COUNT; i++)
        words[i] = quantities[i].name;
    TRY(strict_word(e, "quantity", words, &i));
    TRY(quantities[i].number(e, p, out));
    if (!json_object_get(e->value, "per"))
        return ERR_NONE;
    TRY(strict_word(e, "per", per, &divisor));
    *out /= (double)model_param_elements(p->model, false);
    return ERR_NONE;
}

int query_plan_number(const struct strict_object *e, double *out)
{
    static const char *const keys[] = {"plan", "quantity", "?tier", "?kind",    "?lane",  "?operation", "?purpose",
                                       "?of",  "?beside",  "?per",  "?compare", "?value", "?within",    NULL};
    TRY(strict_keys(e, keys));
    struct planned *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for a plan");
    int rc = run_plan(e, p);
    if (rc == ERR_NONE)
        rc = quantity_number(e, p, out);
    plan_free(&p->plan);
    free(p->opaque_model);
    free(p);
    return rc;
}

int query_accepts_number(const struct strict_object *e, double *out)
{
    static const char *const keys[] = {"world", "?preset", "?config", "?accumulation", "?set", NULL};
    struct strict_object o;
    int world;
    TRY(strict_object_of(e, "accepts", &o));
    TRY(strict_keys(&o, keys));
    TRY(strict_int(&o, "world", 1, WORLD_MAX, &world));
    struct config *config = malloc(sizeof *config);
    if (!config)
        return err_set(ERR_MEMORY, "no memory for a configuration");
    int rc = read_config(&o, world, config);
    free(config);
    *out = rc == ERR_NONE;
    return rc == ERR_USAGE && !is_of_file(e) ? ERR_NONE : rc;
}
