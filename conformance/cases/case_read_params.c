// SPDX-License-Identifier: Apache-2.0
// Reads the parameters and groups of case.json.
#include "conformance/cases/case_read_internal.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <math.h>
#include <string.h>

bool case_is_name(const char *text, const char *more)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t bytes = strspn(text, letters);
    while (text[bytes] && strchr(more, text[bytes]))
        bytes += 1 + strspn(text + bytes + 1, letters);
    return bytes > 0 && text[bytes] == '\0' && text[0] != '.';
}

int case_read_name(const struct strict_object *object, const char *key, const char *more, char out[CASE_NAME_BYTES])
{
    TRY(strict_string(object, key, out, CASE_NAME_BYTES));
    if (!case_is_name(out, more))
        return strict_fail(object, key, "is \"%s\", expected letters, digits, '.', '_' and '-', and no '.' in front",
                           out);
    return ERR_NONE;
}

static int read_shape(const struct strict_object *object, struct case_param *param)
{
    const json_t *shape;
    size_t rank;
    char shown[TEXT_MESSAGE_BYTES];
    TRY(strict_array(object, "shape", 0, CASE_SHAPE_MAX, &shape, &rank));
    param->shape_rank = (int)rank;
    param->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0 || json_integer_value(size) > CASE_ELEMENTS_MAX)
            return strict_fail(object, "shape", "element %zu is %s, expected a whole number from 0 to %d", i,
                               json_message(shown, size), CASE_ELEMENTS_MAX);
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
    TRY(case_read_name(object, "tied_to", "", name));
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

// Pairs of a step, from 1, and a micro-step, from 0.
static int read_unused_in(const struct strict_object *object, const struct check_case *c, struct case_param *param)
{
    const json_t *list;
    size_t count;
    char shown[TEXT_MESSAGE_BYTES];
    if (!case_has_key(object, "unused_in"))
        return ERR_NONE;
    TRY(strict_array(object, "unused_in", 1, (size_t)c->steps * (size_t)c->accumulation, &list, &count));
    if (!param->used || param->frozen)
        return strict_fail(object, "unused_in", "is there, expected none of a parameter that has no gradient");
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(list, i);
        const json_t *step = json_array_get(pair, 0), *micro = json_array_get(pair, 1);
        json_int_t k = json_is_integer(step) ? json_integer_value(step) : 0;
        json_int_t m = json_is_integer(micro) ? json_integer_value(micro) : -1;
        if (json_array_size(pair) != 2 || k < 1 || k > c->steps || m < 0 || m >= c->accumulation)
            return strict_fail(object, "unused_in",
                               "element %zu is %s, expected a step from 1 to %d and a micro-step from 0 to %d", i,
                               json_message(shown, pair), c->steps, c->accumulation - 1);
        param->unused_in[k - 1] |= (uint16_t)(1u << m);
    }
    return ERR_NONE;
}

static int read_adapts(const struct strict_object *object, const struct check_case *c, int index,
                       struct case_param *param)
{
    char name[CASE_NAME_BYTES];
    param->is_adapter = case_has_key(object, "adapts");
    if (!param->is_adapter)
        return ERR_NONE;
    TRY(case_read_name(object, "adapts", "", name));
    param->adapts = find_param(c, index, name);
    if (param->adapts < 0 || !c->params[param->adapts].frozen || param->frozen)
        return strict_fail(object, "adapts", "is \"%s\", expected an earlier frozen parameter, of one that is trained",
                           name);
    return ERR_NONE;
}

static int read_param(const struct strict_object *object, size_t i, void *context)
{
    struct check_case *c = context;
    struct case_param *param = &c->params[i];
    int index = (int)i;
    TRY(strict_only(object, "name shape group frozen used tied_to ?unused_in ?adapts ?placement"));
    TRY(case_read_name(object, "name", "", param->name));
    if (find_param(c, index, param->name) >= 0)
        return strict_fail(object, "name", "is \"%s\", which an earlier parameter has", param->name);
    TRY(read_shape(object, param));
    TRY(strict_int(object, "group", 0, c->group_count - 1, &param->group));
    if (c->groups[param->group].muon && (param->shape_rank != 2 || case_has_key(object, "tied_to")))
        return strict_fail(object, "group", "is of Muon, expected a matrix that is not tied");
    TRY(strict_bool(object, "frozen", &param->frozen));
    TRY(strict_bool(object, "used", &param->used));
    TRY(read_tied_to(object, c, index, param));
    TRY(read_unused_in(object, c, param));
    TRY(read_adapts(object, c, index, param));
    return case_read_placement(object, c, param);
}

int case_read_params(const struct strict_object *root, struct check_case *c)
{
    size_t count;
    TRY(strict_each(root, "params", 1, CASE_PARAM_MAX, read_param, c, &count));
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

// The momentum is kept where Adam's is.
static int read_muon(const struct strict_object *object, struct case_group *group)
{
    static const char *const rates[] = {"original", "match_rms_adamw", NULL};
    int rate = 0;
    TRY(strict_only(object, "optimizer lr momentum nesterov ns_steps adjust_lr_fn weight_decay"));
    TRY(strict_real(object, "momentum", &group->beta1));
    TRY(strict_bool(object, "nesterov", &group->nesterov));
    TRY(strict_int(object, "ns_steps", 1, 99, &group->ns_steps));
    TRY(strict_word(object, "adjust_lr_fn", rates, &rate));
    group->matches_adamw = rate == 1;
    group->bias_correction = true;
    return ERR_NONE;
}

static int read_adam(const struct strict_object *object, struct case_group *group)
{
    TRY(strict_only(object, "optimizer lr betas eps weight_decay bias_correction"));
    TRY(read_betas(object, group));
    TRY(strict_real(object, "eps", &group->eps));
    return strict_bool(object, "bias_correction", &group->bias_correction);
}

// Refuses hyper-parameters that make no sense, unless the case expects a refusal.
static int check_group(const struct strict_object *object, const struct check_case *c, const struct case_group *group)
{
    if (c->expects_refusal)
        return ERR_NONE;
    if (!(group->beta1 >= 0 && group->beta1 < 1 && group->beta2 >= 0 && group->beta2 < 1))
        return group->muon ? strict_fail(object, "momentum", "is %g, expected a number from 0 to below 1", group->beta1)
                           : strict_fail(object, "betas", "are %g and %g, expected numbers from 0 to below 1",
                                         group->beta1, group->beta2);
    if (!(group->eps >= 0))
        return strict_fail(object, "eps", "is %g, expected at least 0", group->eps);
    if (!(group->weight_decay >= 0))
        return strict_fail(object, "weight_decay", "is %g, expected at least 0", group->weight_decay);
    for (int i = 0; i < c->steps; i++)
        if (!(group->lr[i] >= 0))
            return strict_fail(object, "lr", "is %g in step %d, expected at least 0", group->lr[i], i + 1);
    return ERR_NONE;
}

static int read_group(const struct strict_object *object, size_t i, void *context)
{
    struct check_case *c = context;
    struct case_group *group = &c->groups[i];
    static const char *const optimizers[] = {"Adam", "AdamW", "Muon", NULL};
    int optimizer = 0;
    TRY(strict_word(object, "optimizer", optimizers, &optimizer));
    group->decoupled = optimizer > 0;
    group->muon = optimizer == 2;
    TRY(group->muon ? read_muon(object, group) : read_adam(object, group));
    TRY(read_lr(object, c, group));
    TRY(strict_real(object, "weight_decay", &group->weight_decay));
    return check_group(object, c, group);
}

int case_read_groups(const struct strict_object *root, struct check_case *c)
{
    size_t count;
    TRY(strict_each(root, "groups", 1, CASE_GROUP_MAX, read_group, c, &count));
    c->group_count = (int)count;
    return ERR_NONE;
}
