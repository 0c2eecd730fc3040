// SPDX-License-Identifier: Apache-2.0
// What a plan holds and moves: the stages of ref/ laid out without memory, as rank 0 has them.
#include "query.h"

#include "activation.h"
#include "comm_backend.h"
#include "config.h"
#include "err.h"
#include "formula.h"
#include "plan_model.h"
#include "stage.h"
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_MAX = 16, WORLD_MAX = 100000, NAME_BYTES = 64 };

struct plan {
    const struct model *model;
    struct stand_in *stand_in;  // owned; null where the model has a name
    struct config config;
    struct comm comm;
    struct tier *tier;
    struct ledger ledger;
    struct stage stage;
    struct activations activations;
    struct formula formula;
};

static int read_model(const struct strict_object *o, struct plan *plan)
{
    bool named = json_object_get(o->value, "model");
    if (named == !!json_object_get(o->value, "params"))
        return strict_fail(o, named ? "params" : "model", "expected either the name of a model or a count of params");
    if (named) {
        char name[MODEL_NAME_BYTES];
        TRY(strict_string(o, "model", name, sizeof name));
        int rc = plan_model_find(name, 1, &plan->model);
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
        TRY(strict_int(o, "layers", 1, STAND_IN_LAYER_MAX, &layers));
    if (!(plan->stand_in = malloc(sizeof *plan->stand_in)))
        return err_set(ERR_MEMORY, "no memory to plan a model");
    stand_in_make((uint64_t)params, layers, plan->stand_in);
    plan->model = &plan->stand_in->model;
    return ERR_NONE;
}

// The plan's preset with what is set, or its own configuration.
static int read_config(const struct strict_object *o, int world, struct config *out)
{
    static const char *const path[] = {"."};
    char micro[] = "train_micro_batch_size_per_gpu=1", accumulation[64], texts[SET_MAX][128];
    const char *set[SET_MAX + 2] = {micro, accumulation};
    size_t count = 0;
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
            set[2 + i] = strcpy(texts[i], text);
        }
    }
    const struct config_options options = {
        .world = world, .set = set, .set_count = 2 + count, .nvme_paths = path, .nvme_path_count = 1};
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

// Whether the message is about the query's own file, and not about the configuration.
static bool is_of_file(const struct strict_object *o)
{
    return strncmp(err_message(), o->file, strlen(o->file)) == 0;
}

static const char *const PLAN_KEYS[] = {"world", "?model", "?params", "?layers", "?preset", "?config", "?accumulation",
                                        "?set", NULL};

static int plan_open(const struct strict_object *o, struct plan *plan)
{
    static const struct comm_ops no_comm = {.name = "none"};
    int world;
    TRY(strict_keys(o, PLAN_KEYS));
    TRY(strict_int(o, "world", 1, WORLD_MAX, &world));
    TRY(read_model(o, plan));
    int rc = read_config(o, world, &plan->config);
    if (rc != ERR_NONE) {
        char why[512];
        snprintf(why, sizeof why, "%s", err_message());
        return rc == ERR_USAGE && !is_of_file(o) ? strict_fail(o, "", "%s", why) : rc;
    }
    // A limit alone, which a user raises for a large model.
    plan->config.offload_param.buffer_size = SIZE_MAX;
    plan->comm = (struct comm){.ops = &no_comm, .world = world};
    const struct tier_setting tier_setting = {.planned = true};
    const struct stage_operations *operations;
    TRY(tier_open(&plan->ledger, &tier_setting, &plan->tier));
    TRY(stage_find(plan->config.stage, &operations));
    const struct stage_setting setting = {.model = plan->model,
                                          .config = &plan->config,
                                          .comm = &plan->comm,
                                          .tier = plan->tier,
                                          .ledger = &plan->ledger};
    TRY(stage_plan(operations, &setting, &plan->stage));
    TRY(activations_open(plan->model, &plan->config, &plan->stage.move, plan->tier, &plan->activations));
    size_t run_bytes = model_run_bytes(plan->model, plan->config.micro_batch, plan->config.precision,
                                       plan->config.activation_checkpointing);
    formula_of(&plan->stage, 0, run_bytes, 0, &plan->formula);
    activations_formula(&plan->activations, &plan->formula);
    return ERR_NONE;
}

static void plan_close(struct plan *plan)
{
    activations_close(&plan->activations);
    if (plan->stage.operations)
        stage_close(&plan->stage);
    tier_close(plan->tier);
    free(plan->stand_in);
    free(plan);
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

static int held_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    int tier, kind;
    TRY(read_word(e, "tier", tier_name, TIER_COUNT, &tier));
    TRY(read_word(e, "kind", kind_name, KIND_COUNT + 1, &kind));
    *out = 0;
    for (int t = 0; t < TIER_COUNT; t++)
        for (int k = 0; k < KIND_COUNT; k++)
            if ((tier < 0 || t == tier) && is_of_kind(k, kind))
                *out += (double)plan->formula.held_bytes[t][k];
    return ERR_NONE;
}

static int moved_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    int lane, operation;
    TRY(read_word(e, "lane", lane_name, LANE_COUNT, &lane));
    TRY(read_word(e, "operation", operation_name, OPERATION_COUNT, &operation));
    *out = 0;
    for (int l = 0; l < LANE_COUNT; l++)
        for (int o = 0; o < OPERATION_COUNT; o++)
            if ((lane < 0 || l == lane) && (operation < 0 || o == operation))
                *out += (double)(plan->formula.step_bytes[l][o] + plan->formula.applied_bytes[l][o] +
                                 plan->formula.returned_bytes[l][o]);
    return ERR_NONE;
}

static int params_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    (void)e;
    *out = (double)model_param_elements(plan->model, false);
    return ERR_NONE;
}

static int bucket_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    (void)e;
    *out = (double)plan->config.reduce_bucket_size;
    return ERR_NONE;
}

static int block_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    (void)e;
    *out = (double)plan->config.aio.block_bytes;
    return ERR_NONE;
}

static const struct quantity {
    const char *name;
    int (*number)(const struct strict_object *e, const struct plan *plan, double *out);
} quantities[] = {
    {"held_bytes", held_number},           {"moved_bytes", moved_number},   {"params", params_number},
    {"reduce_bucket_elements", bucket_number}, {"aio_block_bytes", block_number},
};
enum { QUANTITY_COUNT = sizeof quantities / sizeof quantities[0] };

static int quantity_number(const struct strict_object *e, const struct plan *plan, double *out)
{
    const char *words[QUANTITY_COUNT + 1] = {0};
    static const char *const per[] = {"param", NULL};
    int i, divisor;
    for (i = 0; i < QUANTITY_COUNT; i++)
        words[i] = quantities[i].name;
    TRY(strict_word(e, "quantity", words, &i));
    TRY(quantities[i].number(e, plan, out));
    if (!json_object_get(e->value, "per"))
        return ERR_NONE;
    TRY(strict_word(e, "per", per, &divisor));
    *out /= (double)model_param_elements(plan->model, false);
    return ERR_NONE;
}

int query_plan_number(const struct strict_object *e, double *out)
{
    static const char *const keys[] = {"plan",       "quantity", "?tier",    "?kind",   "?lane", "?operation",
                                       "?per",       "?compare", "?value",   "?within", NULL};
    struct strict_object o;
    TRY(strict_keys(e, keys));
    TRY(strict_object_of(e, "plan", &o));
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return err_set(ERR_MEMORY, "no memory for a plan");
    int rc = plan_open(&o, plan);
    if (rc == ERR_NONE)
        rc = quantity_number(e, plan, out);
    plan_close(plan);
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
