// SPDX-License-Identifier: Apache-2.0
// Reads case.json, which may be anybody's: every key must be there, and be what CONTRACT.md says.
#include "conformance/cases/case.h"
#include "base/err.h"
#include "base/file.h"
#include "base/strict_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS_MAX ((int64_t)1 << 40)  // of a bucket
#define WINDOW_MAX ((int64_t)1 << 40)

static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};  // as in enum dtype
static const char *const tiers[] = {"none", "cpu", "nvme", NULL};    // as in enum ledger_tier

static bool is_name(const char *text, const char *more)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t bytes = strspn(text, letters);
    while (text[bytes] && strchr(more, text[bytes]))
        bytes += 1 + strspn(text + bytes + 1, letters);
    return bytes > 0 && text[bytes] == '\0' && text[0] != '.';
}

static int read_name(const struct strict_object *object, const char *key, const char *more, char out[CASE_NAME_BYTES])
{
    TRY(strict_string(object, key, out, CASE_NAME_BYTES));
    if (!is_name(out, more))
        return strict_fail(object, key, "is \"%s\", expected letters, digits, '.', '_' and '-', and no '.' in front",
                           out);
    return ERR_NONE;
}

static int read_shape(const struct strict_object *object, struct case_param *param)
{
    const json_t *shape;
    size_t rank;
    char shown[JSON_SHOW_BYTES];
    TRY(strict_array(object, "shape", 0, CASE_SHAPE_MAX, &shape, &rank));
    param->shape_rank = (int)rank;
    param->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0 || json_integer_value(size) > CASE_ELEMENTS_MAX)
            return strict_fail(object, "shape", "element %zu is %s, expected a whole number from 0 to %d", i,
                               strict_show(shown, size), CASE_ELEMENTS_MAX);
        param->shape[i] = (size_t)json_integer_value(size);
        param->count *= param->shape[i];
        if (param->count > CASE_ELEMENTS_MAX)
            return strict_fail(object, "shape", "has more than %d elements", CASE_ELEMENTS_MAX);
    }
    return ERR_NONE;
}

static int find_param(const struct check_case *c, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(c->params[i].name, name) == 0)
            return i;
    return -1;
}

static int read_tied_to(const struct strict_object *object, const struct check_case *c, int index,
                        struct case_param *param)
{
    char name[CASE_NAME_BYTES];
    param->tied_to = -1;
    if (json_is_null(json_object_get(object->value, "tied_to")))
        return ERR_NONE;
    TRY(read_name(object, "tied_to", "", name));
    param->tied_to = find_param(c, index, name);
    if (param->tied_to < 0)
        return strict_fail(object, "tied_to", "is \"%s\", expected null or an earlier parameter", name);
    const struct case_param *owner = &c->params[param->tied_to];
    if (owner->tied_to >= 0)
        return strict_fail(object, "tied_to", "is \"%s\", expected a parameter that is not tied itself", name);
    bool same =
        owner->shape_rank == param->shape_rank && owner->group == param->group && owner->frozen == param->frozen;
    for (int i = 0; same && i < param->shape_rank; i++)
        same = owner->shape[i] == param->shape[i];
    if (!same)
        return strict_fail(object, "tied_to", "is \"%s\", expected a parameter of the same shape, group and frozen",
                           name);
    return ERR_NONE;
}

static int read_param(const struct strict_object *object, struct check_case *c, int index)
{
    static const char *const keys[] = {"name", "shape", "group", "frozen", "used", "tied_to", NULL};
    struct case_param *param = &c->params[index];
    TRY(strict_keys(object, keys));
    TRY(read_name(object, "name", "", param->name));
    if (find_param(c, index, param->name) >= 0)
        return strict_fail(object, "name", "is \"%s\", which an earlier parameter has", param->name);
    TRY(read_shape(object, param));
    TRY(strict_int(object, "group", 0, c->group_count - 1, &param->group));
    TRY(strict_bool(object, "frozen", &param->frozen));
    TRY(strict_bool(object, "used", &param->used));
    return read_tied_to(object, c, index, param);
}

static int read_params(const struct strict_object *root, struct check_case *c)
{
    const json_t *array;
    size_t count;
    TRY(strict_array(root, "params", 1, CASE_PARAM_MAX, &array, &count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object object;
        TRY(strict_element(root, "params", array, i, &object));
        TRY(read_param(&object, c, (int)i));
    }
    c->param_count = (int)count;
    return ERR_NONE;
}

// A number for all steps, or a list of one for each.
static int read_lr(const struct strict_object *object, const struct check_case *c, struct case_group *group)
{
    const json_t *value = json_object_get(object->value, "lr");
    group->lr_by_step = json_is_array(value);
    if (!group->lr_by_step) {
        TRY(strict_real(object, "lr", &group->lr[0]));
        for (int i = 1; i < c->steps; i++)
            group->lr[i] = group->lr[0];
        return ERR_NONE;
    }
    if (json_array_size(value) != (size_t)c->steps)
        return strict_fail(object, "lr", "has %zu elements, expected one for each of the %d steps",
                           json_array_size(value), c->steps);
    for (int i = 0; i < c->steps; i++) {
        const json_t *number = json_array_get(value, (size_t)i);
        group->lr[i] = json_number_value(number);
        if (!json_is_number(number) || !isfinite(group->lr[i]))
            return strict_fail(object, "lr", "element %d is not a number", i);
    }
    return ERR_NONE;
}

static int read_betas(const struct strict_object *object, struct case_group *group)
{
    const json_t *array;
    size_t count;
    TRY(strict_array(object, "betas", 2, 2, &array, &count));
    const json_t *first = json_array_get(array, 0), *second = json_array_get(array, 1);
    group->beta1 = json_number_value(first);
    group->beta2 = json_number_value(second);
    if (!json_is_number(first) || !json_is_number(second) || !isfinite(group->beta1) || !isfinite(group->beta2))
        return strict_fail(object, "betas", "are not two numbers");
    return ERR_NONE;
}

// What no optimizer can do anything with; a case that expects a refusal may ask for it.
static int check_group(const struct strict_object *object, const struct check_case *c, const struct case_group *group)
{
    if (c->expects_refusal)
        return ERR_NONE;
    if (!(group->beta1 >= 0 && group->beta1 < 1 && group->beta2 >= 0 && group->beta2 < 1))
        return strict_fail(object, "betas", "are %g and %g, expected numbers from 0 to below 1", group->beta1,
                           group->beta2);
    if (!(group->eps >= 0))
        return strict_fail(object, "eps", "is %g, expected at least 0", group->eps);
    if (!(group->weight_decay >= 0))
        return strict_fail(object, "weight_decay", "is %g, expected at least 0", group->weight_decay);
    for (int i = 0; i < c->steps; i++)
        if (!(group->lr[i] >= 0))
            return strict_fail(object, "lr", "is %g in step %d, expected at least 0", group->lr[i], i + 1);
    return ERR_NONE;
}

static int read_group(const struct strict_object *object, const struct check_case *c, struct case_group *group)
{
    static const char *const keys[] = {"optimizer", "lr", "betas", "eps", "weight_decay", "bias_correction", NULL};
    static const char *const optimizers[] = {"Adam", "AdamW", NULL};
    int optimizer = 0;
    TRY(strict_keys(object, keys));
    TRY(strict_word(object, "optimizer", optimizers, &optimizer));
    group->decoupled = optimizer == 1;
    TRY(read_lr(object, c, group));
    TRY(read_betas(object, group));
    TRY(strict_real(object, "eps", &group->eps));
    TRY(strict_real(object, "weight_decay", &group->weight_decay));
    TRY(strict_bool(object, "bias_correction", &group->bias_correction));
    return check_group(object, c, group);
}

static int read_groups(const struct strict_object *root, struct check_case *c)
{
    const json_t *array;
    size_t count;
    TRY(strict_array(root, "groups", 1, CASE_GROUP_MAX, &array, &count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object object;
        TRY(strict_element(root, "groups", array, i, &object));
        TRY(read_group(&object, c, &c->groups[i]));
    }
    c->group_count = (int)count;
    return ERR_NONE;
}

static int read_count(const struct strict_object *object, const char *key, uint64_t *out)
{
    int64_t value = 0;
    TRY(strict_integer(object, key, 0, WINDOW_MAX, &value));
    *out = (uint64_t)value;
    return ERR_NONE;
}

static int read_dynamic(const struct strict_object *object, const struct check_case *c, struct case_loss_scale *scale)
{
    TRY(strict_real(object, "initial_scale", &scale->scale));
    TRY(read_count(object, "window", &scale->window));
    TRY(read_count(object, "hysteresis", &scale->hysteresis));
    TRY(strict_real(object, "min_scale", &scale->min_scale));
    if (c->expects_refusal)
        return ERR_NONE;
    if (!(scale->scale > 0))
        return strict_fail(object, "initial_scale", "is %g, expected a positive number", scale->scale);
    if (scale->window == 0 || scale->hysteresis == 0)
        return strict_fail(object, scale->window == 0 ? "window" : "hysteresis", "is 0, expected at least 1");
    if (!(scale->min_scale > 0 && scale->min_scale <= scale->scale))
        return strict_fail(object, "min_scale", "is %g, expected a positive number, at most the initial scale",
                           scale->min_scale);
    return ERR_NONE;
}

static int read_loss_scale(const struct strict_object *root, struct check_case *c)
{
    static const char *const kinds[] = {"none", "static", "dynamic", NULL};  // as in enum case_scale_kind
    static const char *const none[] = {"kind", NULL}, *const fixed[] = {"kind", "scale", NULL};
    static const char *const dynamic[] = {"kind", "initial_scale", "window", "hysteresis", "min_scale", NULL};
    struct strict_object object;
    int kind = 0;
    TRY(strict_object_of(root, "loss_scale", &object));
    TRY(strict_word(&object, "kind", kinds, &kind));
    c->loss_scale.kind = (enum case_scale_kind)kind;
    if (kind == SCALE_NONE)
        return strict_keys(&object, none);
    TRY(strict_keys(&object, kind == SCALE_STATIC ? fixed : dynamic));
    if (kind == SCALE_DYNAMIC)
        return read_dynamic(&object, c, &c->loss_scale);
    TRY(strict_real(&object, "scale", &c->loss_scale.scale));
    if (!c->expects_refusal && !(c->loss_scale.scale > 0))
        return strict_fail(&object, "scale", "is %g, expected a positive number", c->loss_scale.scale);
    return ERR_NONE;
}

static int read_checkpoint(const struct strict_object *root, struct check_case *c)
{
    static const char *const keys[] = {"phase", "step", "weights_only", NULL};
    static const char *const phases[] = {"save", "resume", NULL};
    struct strict_object object;
    int phase = 0;
    if (json_is_null(json_object_get(root->value, "checkpoint")))
        return ERR_NONE;
    TRY(strict_object_of(root, "checkpoint", &object));
    TRY(strict_keys(&object, keys));
    TRY(strict_word(&object, "phase", phases, &phase));
    c->phase = phase == 0 ? PHASE_SAVE : PHASE_RESUME;
    TRY(strict_int(&object, "step", 1, c->steps - 1, &c->checkpoint_step));
    return strict_bool(&object, "weights_only", &c->weights_only);
}

static int read_hints(const struct strict_object *root, struct check_case *c)
{
    static const char *const buckets[] = {"reduce", "allgather", "prefetch", "sub_group", NULL};
    static const char *const hints[] = {"overlap", "contiguous_gradients", "reduce_scatter", NULL};
    static const char *const offload[] = {"optimizer", "param", NULL};
    struct strict_object object;
    int optimizer = 0, param = 0;
    TRY(strict_object_of(root, "buckets", &object));
    TRY(strict_keys(&object, buckets));
    TRY(strict_size(&object, "reduce", ELEMENTS_MAX, &c->reduce_bucket));
    TRY(strict_size(&object, "allgather", ELEMENTS_MAX, &c->allgather_bucket));
    TRY(strict_size(&object, "prefetch", ELEMENTS_MAX, &c->prefetch_bucket));
    TRY(strict_size(&object, "sub_group", ELEMENTS_MAX, &c->sub_group));
    TRY(strict_object_of(root, "hints", &object));
    TRY(strict_keys(&object, hints));
    TRY(strict_bool(&object, "overlap", &c->overlap));
    TRY(strict_bool(&object, "contiguous_gradients", &c->contiguous_gradients));
    TRY(strict_bool(&object, "reduce_scatter", &c->reduce_scatter));
    TRY(strict_object_of(root, "offload", &object));
    TRY(strict_keys(&object, offload));
    TRY(strict_word(&object, "optimizer", tiers, &optimizer));
    TRY(strict_word(&object, "param", tiers, &param));
    c->offload_optimizer = (enum ledger_tier)optimizer;
    c->offload_param = (enum ledger_tier)param;
    return ERR_NONE;
}

static int read_requirements(const struct strict_object *root, struct check_case *c)
{
    const json_t *array;
    size_t count;
    TRY(strict_array(root, "requirements", 0, CASE_REQUIREMENT_MAX, &array, &count));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text || strlen(text) >= CASE_REQUIREMENT_BYTES || !is_name(text, ""))
            return strict_fail(root, "requirements", "element %zu is not the name of a requirement", i);
        memcpy(c->requirements[i], text, strlen(text) + 1);
    }
    c->requirement_count = (int)count;
    return ERR_NONE;
}

static int read_dtypes(const struct strict_object *root, struct check_case *c)
{
    int precision = 0, communication = 0, accumulation = 0;
    TRY(strict_word(root, "precision", dtypes, &precision));
    TRY(strict_word(root, "communication_dtype", dtypes, &communication));
    TRY(strict_word(root, "accumulation_dtype", dtypes, &accumulation));
    c->precision = (enum dtype)precision;
    c->communication_dtype = (enum dtype)communication;
    c->accumulation_dtype = (enum dtype)accumulation;
    return ERR_NONE;
}

static int read_identity(const struct strict_object *root, struct check_case *c)
{
    static const char *const expectations[] = {"answer", "refusal", NULL};
    int expectation = 0;
    TRY(strict_word(root, "expect", expectations, &expectation));
    c->expects_refusal = expectation == 1;
    TRY(read_name(root, "name", "~", c->name));
    return strict_string(root, "note", c->note, CASE_NOTE_BYTES);
}

static int read_case(const struct strict_object *root, struct check_case *c)
{
    static const char *const keys[] = {"contract",
                                       "name",
                                       "note",
                                       "requirements",
                                       "world",
                                       "steps",
                                       "accumulation",
                                       "stage",
                                       "precision",
                                       "communication_dtype",
                                       "accumulation_dtype",
                                       "params",
                                       "groups",
                                       "gradient_clipping",
                                       "loss_scale",
                                       "overflow_check",
                                       "buckets",
                                       "hints",
                                       "offload",
                                       "delayed_update",
                                       "checkpoint",
                                       "exact",
                                       "expect",
                                       NULL};
    int contract = 0;
    TRY(strict_int(root, "contract", CASE_CONTRACT, CASE_CONTRACT, &contract));
    TRY(strict_keys(root, keys));
    TRY(read_identity(root, c));
    TRY(read_requirements(root, c));
    TRY(strict_int(root, "world", 1, CASE_WORLD_MAX, &c->world));
    TRY(strict_int(root, "steps", 1, CASE_STEP_MAX, &c->steps));
    TRY(strict_int(root, "accumulation", 1, CASE_ACCUMULATION_MAX, &c->accumulation));
    TRY(strict_int(root, "stage", 0, 3, &c->stage));
    TRY(read_dtypes(root, c));
    TRY(read_groups(root, c));
    TRY(read_params(root, c));
    TRY(strict_real(root, "gradient_clipping", &c->gradient_clipping));
    if (!c->expects_refusal && !(c->gradient_clipping >= 0))
        return strict_fail(root, "gradient_clipping", "is %g, expected at least 0", c->gradient_clipping);
    TRY(read_loss_scale(root, c));
    TRY(strict_bool(root, "overflow_check", &c->overflow_check));
    TRY(read_hints(root, c));
    TRY(strict_int(root, "delayed_update", 0, c->steps, &c->delayed_update));
    TRY(read_checkpoint(root, c));
    return strict_bool(root, "exact", &c->exact);
}

int case_parse(const char *file, const char *text, size_t bytes, struct check_case *out)
{
    struct json_text json;
    *out = (struct check_case){0};
    TRY(json_text_parse(file, text, bytes, &json));
    struct strict_object root = strict_root(file, &json);
    int rc = read_case(&root, out);
    json_text_close(&json);
    return rc;
}

int case_read(const char *folder, struct check_case *out)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    TRY(file_join(folder, "case.json", path));
    TRY(json_read(path, &text, &bytes));
    int rc = case_parse(path, text, bytes, out);
    free(text);
    return rc;
}
