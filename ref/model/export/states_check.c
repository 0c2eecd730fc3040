// SPDX-License-Identifier: Apache-2.0
// Checks a state that another program has written, before anything uses it.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/strict_json.h"

#include <string.h>

static int count_or_null(const struct strict_object *object, const char *key)
{
    int64_t value;
    return json_is_null(json_object_get(object->value, key)) ? ERR_NONE
                                                             : strict_integer(object, key, 0, INT64_MAX, &value);
}

static int check_groups(const struct strict_object *root, size_t *count)
{
    static const char *const needed[] = {"lr", "eps", "weight_decay"};
    const json_t *groups;
    struct strict_object group;
    double real;
    TRY(strict_array(root, "groups", 0, SIZE_MAX, &groups, count));
    for (size_t i = 0; i < *count; i++) {
        TRY(strict_element(root, "groups", groups, i, &group));
        for (size_t k = 0; k < 3; k++)
            TRY(strict_real(&group, needed[k], &real));
        const json_t *betas = json_object_get(group.value, "betas");
        if (json_array_size(betas) != 2 || !json_is_number(json_array_get(betas, 0)) ||
            !json_is_number(json_array_get(betas, 1)))
            return strict_fail(&group, "betas", "expected two numbers");
    }
    return ERR_NONE;
}

static int check_scaler(const struct strict_object *root, bool needed)
{
    static const char *const keys[] = {"dynamic", "scale", "iteration", "last_overflow", "hysteresis", NULL};
    static const char *const all[] = {"dynamic",    "scale",  "iteration",        "last_overflow",
                                      "hysteresis", "window", "hysteresis_start", "consecutive",
                                      "min_scale",  NULL};
    struct strict_object scaler;
    bool dynamic, consecutive;
    int64_t integer;
    double real;
    if (json_is_null(json_object_get(root->value, "scaler")))
        return needed ? strict_fail(root, "scaler", "missing, but the model is in fp16") : ERR_NONE;
    TRY(strict_object_of(root, "scaler", &scaler));
    TRY(strict_bool(&scaler, "dynamic", &dynamic));
    TRY(strict_keys(&scaler, dynamic ? all : keys));
    TRY(strict_real(&scaler, "scale", &real));
    if (real <= 0.0)
        return strict_fail(&scaler, "scale", "is not a positive number");
    for (int i = 2; i < (dynamic ? 7 : 5); i++)
        TRY(strict_integer(&scaler, all[i], i == 3 ? -1 : i == 5, INT64_MAX, &integer));
    if (dynamic)
        TRY(strict_bool(&scaler, "consecutive", &consecutive));
    return dynamic ? strict_real(&scaler, "min_scale", &real) : ERR_NONE;
}

// Other formats make files and folders of the names.
static bool is_safe_name(const char *name)
{
    for (const char *part = name;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && strncmp(part, "..", 2) == 0))
            return false;
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f || part[i] == '\\')
                return false;
        part += length;
        if (!*part)
            return true;
    }
}

static int check_name(const struct strict_object *root, const char *name)
{
    char shown[TEXT_MESSAGE_BYTES];
    return is_safe_name(name) ? ERR_NONE
                              : strict_fail(root, "",
                                            "\"%s\" is not a name of a parameter: it is empty, leads out of "
                                            "its folder, or has a control character",
                                            text_message(shown, name, 100));
}

static int check_param(const struct strict_object *param, int64_t group_count)
{
    const json_t *shape, *group = json_object_get(param->value, "group");
    size_t rank = 0;
    uint64_t count = 1;
    int64_t index;
    TRY(strict_only(param, "shape group t"));
    TRY(strict_array(param, "shape", 0, SAFETENSORS_RANK_MAX, &shape, &rank));
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            __builtin_mul_overflow(count, (uint64_t)json_integer_value(size), &count) || count > INT64_MAX / 8)
            return strict_fail(param, "shape", "is not the shape of a tensor");
    }
    TRY(count_or_null(param, "t"));
    if (!json_is_null(group))
        return strict_integer(param, "group", 0, group_count - 1, &index);
    return json_is_null(json_object_get(param->value, "t"))
               ? ERR_NONE
               : strict_fail(param, "t", "is given, but the parameter is in no group");
}

static int check_params(const struct strict_object *root, size_t group_count)
{
    struct strict_object params, param, tied;
    const char *name, *target;
    json_t *value;
    TRY(strict_object_of(root, "parameters", &params));
    json_object_foreach ((json_t *)(uintptr_t)params.value, name, value) {
        TRY(check_name(&params, name));
        TRY(strict_object_of(&params, name, &param));
        TRY(check_param(&param, (int64_t)group_count));
    }
    TRY(strict_object_of(root, "tied", &tied));
    json_object_foreach ((json_t *)(uintptr_t)tied.value, name, value) {
        TRY(check_name(&tied, name));
        TRY(strict_text(&tied, name, &target));
        if (!json_object_get(params.value, target) || json_object_get(params.value, name))
            return strict_fail(&tied, name, "is not another name of a parameter");
    }
    return ERR_NONE;
}

int states_check(const struct json_text *text)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16", NULL};
    struct strict_object root = strict_root(text), origin;
    int precision;
    int64_t step, skipped;
    size_t group_count = 0;
    TRY(strict_only(&root, "precision step skipped schedule scaler groups parameters tied origin"));
    TRY(strict_word(&root, "precision", precisions, &precision));
    TRY(strict_integer(&root, "step", 0, INT64_MAX, &step));
    TRY(strict_integer(&root, "skipped", 0, step, &skipped));
    TRY(count_or_null(&root, "schedule"));
    TRY(check_scaler(&root, precision == 2));
    TRY(check_groups(&root, &group_count));
    TRY(check_params(&root, group_count));
    return json_is_null(json_object_get(root.value, "origin")) ? ERR_NONE : strict_object_of(&root, "origin", &origin);
}
