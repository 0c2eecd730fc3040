// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/query.h"

#include "ref/arithmetic/dtype.h"
#include "plan/claims/equation.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Of operands that an array holds.
enum { OPERAND_MAX = 32 };

static int number_of(const struct strict_object *object, const char *key, int depth, double *out);

static int refuse_operand(const struct strict_object *object, const char *key)
{
    char shown[JSON_SHOW_BYTES];
    return strict_fail(object, key, "is %s, expected a number or an expression such as {\"equation\": NAME, ...}",
                       strict_show(shown, json_object_get(object->value, key)));
}

static int operands_of(const struct strict_object *object, const char *key, size_t low, size_t high, int depth,
                       double out[OPERAND_MAX], size_t *count)
{
    const json_t *array;
    TRY(strict_array(object, key, low, high, &array, count));
    // Each is looked at as if it stood under its own key.
    struct strict_object list = *object;
    int rc = ERR_NONE;
    snprintf(list.path + strlen(list.path), sizeof list.path - strlen(list.path), "%s%s", *list.path ? "." : "", key);
    json_t *elements = json_object();
    list.value = elements;
    for (size_t i = 0; rc == ERR_NONE && i < *count; i++) {
        char position[24];
        snprintf(position, sizeof position, "%zu", i);
        rc = json_object_set(elements, position, json_array_get(array, i)) == 0
                 ? number_of(&list, position, depth, &out[i])
                 : err_set(ERR_MEMORY, "no memory for a query");
    }
    json_decref(elements);
    return rc;
}

static int sum_number(const struct strict_object *e, int depth, double *out)
{
    double operands[OPERAND_MAX];
    size_t count;
    TRY(operands_of(e, "sum", 1, OPERAND_MAX, depth, operands, &count));
    *out = 0;
    for (size_t i = 0; i < count; i++)
        *out += operands[i];
    return ERR_NONE;
}

static int product_number(const struct strict_object *e, int depth, double *out)
{
    double operands[OPERAND_MAX];
    size_t count;
    TRY(operands_of(e, "product", 1, OPERAND_MAX, depth, operands, &count));
    *out = 1;
    for (size_t i = 0; i < count; i++)
        *out *= operands[i];
    return ERR_NONE;
}

static int difference_number(const struct strict_object *e, int depth, double *out)
{
    double operands[OPERAND_MAX];
    size_t count;
    TRY(operands_of(e, "difference", 2, 2, depth, operands, &count));
    *out = operands[0] - operands[1];
    return ERR_NONE;
}

static int quotient_number(const struct strict_object *e, int depth, double *out)
{
    double operands[OPERAND_MAX];
    size_t count;
    TRY(operands_of(e, "quotient", 2, 2, depth, operands, &count));
    if (operands[1] == 0)
        return strict_fail(e, "quotient", "divides by zero");
    *out = operands[0] / operands[1];
    return ERR_NONE;
}

static int smallest_number(const struct strict_object *e, int depth, double *out)
{
    double operands[OPERAND_MAX];
    size_t count;
    TRY(operands_of(e, "smallest", 1, OPERAND_MAX, depth, operands, &count));
    *out = operands[0];
    for (size_t i = 1; i < count; i++)
        *out = fmin(*out, operands[i]);
    return ERR_NONE;
}

// {"equation": NAME, ...}: every argument under its own name.
static int equation_number(const struct strict_object *e, int depth, double *out)
{
    char name[64];
    double arguments[EQUATION_ARGUMENT_MAX];
    const char *keys[EQUATION_ARGUMENT_MAX + 5] = {"equation", "?compare", "?value", "?within"};
    TRY(strict_string(e, "equation", name, sizeof name));
    const struct equation *equation = equation_find(name);
    if (!equation) {
        char known[512] = "";
        size_t used = 0;
        for (size_t i = 0; equation_at(i) && used < sizeof known; i++)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", equation_at(i)->name);
        return strict_fail(e, "equation", "is '%s', expected one of %s", name, known);
    }
    for (int i = 0; equation->arguments[i]; i++)
        keys[4 + i] = equation->arguments[i];
    TRY(strict_keys(e, keys));
    for (int i = 0; equation->arguments[i]; i++)
        TRY(number_of(e, equation->arguments[i], depth, &arguments[i]));
    *out = equation->value(arguments);
    return ERR_NONE;
}

static const char *const FORMATS[] = {"fp32", "bf16", "fp16", NULL};

// By the conversions that the stages use.
static double rounded(double value, int format)
{
    float single = (float)value;
    return format == 0 ? single : format == 1 ? bf16_to_f32(f32_to_bf16(single)) : fp16_to_f32(f32_to_fp16(single));
}

// {"rounded": x, "to": "fp16"}: what the format makes of x.
static int rounded_number(const struct strict_object *e, int depth, double *out)
{
    int format;
    double value;
    TRY(strict_word(e, "to", FORMATS, &format));
    TRY(number_of(e, "rounded", depth, &value));
    *out = rounded(value, format);
    return ERR_NONE;
}

// {"overflows": x, "to": "fp16"}: 1 where the format makes an infinity of x, 0 where it does not.
static int overflows_number(const struct strict_object *e, int depth, double *out)
{
    int format;
    double value;
    TRY(strict_word(e, "to", FORMATS, &format));
    TRY(number_of(e, "overflows", depth, &value));
    *out = isinf(rounded(value, format));
    return ERR_NONE;
}

static int plan_number(const struct strict_object *e, int depth, double *out)
{
    (void)depth;
    return query_plan_number(e, out);
}

static int accepts_number(const struct strict_object *e, int depth, double *out)
{
    (void)depth;
    return query_accepts_number(e, out);
}

static int printed_number(const struct strict_object *e, int depth, double *out)
{
    (void)depth;
    return query_printed_number(e, out);
}

// By the key that tells it; what may stand beside it, unless its function looks itself.
static const struct form {
    const char *keys[6];
    int (*number)(const struct strict_object *e, int depth, double *out);
} forms[] = {
    {{"plan"}, plan_number},
    {{"equation"}, equation_number},
    {{"printed", "row", "column", "?compare", "?value", "?within"}, printed_number},
    {{"rounded", "to", "?compare", "?value", "?within"}, rounded_number},
    {{"overflows", "to", "?compare", "?value", "?within"}, overflows_number},
    {{"accepts", "?compare", "?value", "?within"}, accepts_number},
    {{"sum", "?compare", "?value", "?within"}, sum_number},
    {{"product", "?compare", "?value", "?within"}, product_number},
    {{"difference", "?compare", "?value", "?within"}, difference_number},
    {{"quotient", "?compare", "?value", "?within"}, quotient_number},
    {{"smallest", "?compare", "?value", "?within"}, smallest_number},
};
enum { FORM_COUNT = sizeof forms / sizeof forms[0] };

static int expression_number(const struct strict_object *e, int depth, double *out)
{
    if (depth > QUERY_DEPTH_MAX)
        return strict_fail(e, "", "is more than %d expressions deep", QUERY_DEPTH_MAX);
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (!json_object_get(e->value, forms[i].keys[0]))
            continue;
        if (forms[i].keys[1]) {
            const char *keys[7] = {0};
            memcpy(keys, forms[i].keys, sizeof forms[i].keys);
            TRY(strict_keys(e, keys));
        }
        TRY(forms[i].number(e, depth + 1, out));
        return isfinite(*out) ? ERR_NONE : strict_fail(e, "", "has no finite value");
    }
    return strict_fail(e, "",
                       "expected one of the keys plan, equation, printed, rounded, overflows, accepts, sum, "
                       "product, difference, quotient, smallest");
}

static int number_of(const struct strict_object *object, const char *key, int depth, double *out)
{
    const json_t *value = json_object_get(object->value, key);
    struct strict_object expression;
    if (json_is_number(value))
        return strict_real(object, key, out);
    if (!json_is_object(value))
        return refuse_operand(object, key);
    TRY(strict_object_of(object, key, &expression));
    if (json_object_get(expression.value, "compare"))
        return strict_fail(&expression, "compare", "stands inside an expression; only a query compares");
    return expression_number(&expression, depth, out);
}

int query_number(const struct strict_object *object, const char *key, double *out)
{
    return number_of(object, key, 0, out);
}

static bool compare_numbers(const char *how, double a, double b, double within)
{
    return strcmp(how, "<") == 0    ? a < b
           : strcmp(how, "<=") == 0 ? a <= b
           : strcmp(how, ">") == 0  ? a > b
           : strcmp(how, ">=") == 0 ? a >= b
           : strcmp(how, "==") == 0 ? a == b
                                    : fabs(a - b) <= within * fabs(b);
}

static int comparison_holds(const struct strict_object *query, bool *out, double *measured)
{
    static const char *const words[] = {"<", "<=", ">", ">=", "==", "about", NULL};
    // "About" without more: as a number of two digits is.
    double value, within = 0.05;
    int word;
    TRY(strict_word(query, "compare", words, &word));
    TRY(number_of(query, "value", 0, &value));
    if (json_object_get(query->value, "within"))
        TRY(strict_real(query, "within", &within));
    if (within < 0)
        return strict_fail(query, "within", "is %g, expected a part of the value such as 0.05", within);
    TRY(expression_number(query, 0, measured));
    *out = compare_numbers(words[word], *measured, value, within);
    return ERR_NONE;
}

static int object_holds(const struct strict_object *query, int depth, bool *out, double *measured);

// {"all": [...]} and {"any": [...]}: every part is evaluated, so that a mistake in any is seen.
static int list_holds(const struct strict_object *query, const char *key, int depth, bool all, bool *out,
                      double *measured)
{
    const json_t *array;
    size_t count;
    const char *const keys[] = {key, NULL};
    TRY(strict_keys(query, keys));
    TRY(strict_array(query, key, 1, OPERAND_MAX, &array, &count));
    *out = all;
    for (size_t i = 0; i < count; i++) {
        struct strict_object part;
        bool holds;
        TRY(strict_element(query, key, array, i, &part));
        TRY(object_holds(&part, depth + 1, &holds, measured));
        *out = all ? *out && holds : *out || holds;
    }
    if (count > 1)
        *measured = NAN;
    return ERR_NONE;
}

static int object_holds(const struct strict_object *query, int depth, bool *out, double *measured)
{
    if (depth > QUERY_DEPTH_MAX)
        return strict_fail(query, "", "is more than %d queries deep", QUERY_DEPTH_MAX);
    *measured = NAN;
    if (json_object_get(query->value, "all"))
        return list_holds(query, "all", depth, true, out, measured);
    if (json_object_get(query->value, "any"))
        return list_holds(query, "any", depth, false, out, measured);
    if (json_object_get(query->value, "compare"))
        return comparison_holds(query, out, measured);
    if (!json_object_get(query->value, "accepts") && !json_object_get(query->value, "overflows"))
        return strict_fail(query, "compare", "missing: one of <, <=, >, >=, ==, about, and beside it a value");
    double truth;
    TRY(expression_number(query, 0, &truth));
    *out = truth != 0;
    return ERR_NONE;
}

int query_holds(const struct strict_object *object, const char *key, bool *out, double *measured)
{
    struct strict_object query;
    TRY(strict_object_of(object, key, &query));
    return object_holds(&query, 0, out, measured);
}
