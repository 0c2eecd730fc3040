// SPDX-License-Identifier: Apache-2.0
#include "plan/claims/query.h"

#include "ref/arithmetic/dtype.h"
#include "plan/claims/equation.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Limits of an array's elements, and of an expression's keys.
enum { OPERAND_MAX = 32, KEY_MAX = 12 };

static int number_of(const struct strict_object *object, const char *key, const json_t *array, size_t i, int depth,
                     double *out);

// {"sum": [...]} and the others, each folded from the left.
static int arithmetic(const struct strict_object *e, const char *key, int depth, double *out)
{
    bool quotient = strcmp(key, "quotient") == 0, is_pair = quotient || strcmp(key, "difference") == 0;
    const json_t *operands;
    size_t count;
    double next;
    TRY(strict_array(e, key, is_pair ? 2 : 1, is_pair ? 2 : OPERAND_MAX, &operands, &count));
    TRY(number_of(e, key, operands, 0, depth, out));
    for (size_t i = 1; i < count; i++) {
        TRY(number_of(e, key, operands, i, depth, &next));
        if (quotient && next == 0)
            return strict_fail(e, key, "divides by zero");
        *out = quotient                      ? *out / next
               : is_pair                     ? *out - next
               : strcmp(key, "sum") == 0     ? *out + next
               : strcmp(key, "product") == 0 ? *out * next
                                             : fmin(*out, next);
    }
    return ERR_NONE;
}

// {"equation": NAME, ...} with every argument under its own name.
static int equation_number(const struct strict_object *e, const char *key, int depth, double *out)
{
    char name[64];
    double arguments[EQUATION_ARGUMENT_MAX];
    const char *keys[EQUATION_ARGUMENT_MAX + 5] = {key, "?compare", "?value", "?within"};
    TRY(strict_string(e, key, name, sizeof name));
    const struct equation *equation = equation_find(name);
    char known[512] = "";
    for (size_t i = 0; !equation && equation_at(i); i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", equation_at(i)->name);
    if (!equation)
        return strict_fail(e, key, "is '%s', expected one of %s", name, known);
    memcpy(keys + 4, equation->arguments, sizeof equation->arguments);
    TRY(strict_keys(e, keys));
    for (int i = 0; equation->arguments[i]; i++)
        TRY(query_number(e, equation->arguments[i], depth, &arguments[i]));
    *out = equation->value(arguments);
    return ERR_NONE;
}

// {"rounded": x, "to": "fp16"}: x rounded by the conversions that the stages use. {"overflows": x, "to": ...}: 1 if the
// rounded value is infinite, else 0.
static int rounded_number(const struct strict_object *e, const char *key, int depth, double *out)
{
    static const char *const formats[] = {"fp32", "bf16", "fp16", NULL};
    int format;
    double value;
    TRY(strict_word(e, "to", formats, &format));
    TRY(query_number(e, key, depth, &value));
    float single = (float)value;
    *out = format == 0 ? single : format == 1 ? bf16_to_f32(f32_to_bf16(single)) : fp16_to_f32(f32_to_fp16(single));
    if (strcmp(key, "overflows") == 0)
        *out = isinf(*out);
    return ERR_NONE;
}

// Forms of expressions by their key. beside: the other keys, unless the function checks them itself.
static const struct form {
    const char *key;
    int (*number)(const struct strict_object *e, const char *key, int depth, double *out);
    const char *beside[KEY_MAX - 4];
} forms[] = {
    {"plan", query_plan_number, {"quantity", "?tier", "?kind", "?lane", "?operation", "?of", "?beside", "?per"}},
    {"equation", equation_number, {NULL}},
    {"printed", query_printed_number, {"row", "column"}},
    {"rounded", rounded_number, {"to"}},
    {"overflows", rounded_number, {"to"}},
    {"accepts", query_accepts_number, {NULL}},
    {"sum", arithmetic, {NULL}},
    {"product", arithmetic, {NULL}},
    {"difference", arithmetic, {NULL}},
    {"quotient", arithmetic, {NULL}},
    {"smallest", arithmetic, {NULL}},
};

static int expression_number(const struct strict_object *e, int depth, double *out)
{
    const struct form *form = forms, *end = forms + sizeof forms / sizeof forms[0];
    if (depth > QUERY_DEPTH_MAX)
        return strict_fail(e, "", "is more than %d expressions deep", QUERY_DEPTH_MAX);
    while (form < end && !query_has(e, form->key))
        form++;
    if (form == end)
        return strict_fail(e, "",
                           "expected one of the keys plan, equation, printed, rounded, overflows, accepts, sum, "
                           "product, difference, quotient, smallest");
    const char *keys[KEY_MAX + 1] = {form->key, "?compare", "?value", "?within"};
    memcpy(keys + 4, form->beside, sizeof form->beside);
    if (form->number != equation_number)
        TRY(strict_keys(e, keys));
    TRY(form->number(e, form->key, depth + 1, out));
    return isfinite(*out) ? ERR_NONE : strict_fail(e, "", "has no finite value");
}

// Evaluates the expression at a key of the object, or element i of the array at that key; null: not an array.
static int number_of(const struct strict_object *object, const char *key, const json_t *array, size_t i, int depth,
                     double *out)
{
    const json_t *value = array ? json_array_get(array, i) : json_object_get(object->value, key);
    struct strict_object e;
    char element[64], shown[TEXT_MESSAGE_BYTES];
    snprintf(element, sizeof element, array ? "%s.%zu" : "%s", key, i);
    *out = json_number_value(value);
    if (json_is_number(value))
        return ERR_NONE;
    if (!json_is_object(value))
        return strict_fail(object, element,
                           "is %s, expected a number or an expression such as {\"equation\": NAME, ...}",
                           json_message(shown, value));
    TRY(array ? strict_element(object, key, array, i, &e) : strict_object_of(object, key, &e));
    if (query_has(&e, "compare"))
        return strict_fail(&e, "compare", "is inside an expression; only a query compares");
    return expression_number(&e, depth, out);
}

int query_number(const struct strict_object *object, const char *key, int depth, double *out)
{
    return number_of(object, key, NULL, 0, depth, out);
}

static int comparison_holds(const struct strict_object *query, bool *out, double *measured)
{
    static const char *const words[] = {"<", "<=", ">", ">=", "==", "about", NULL};
    // "about" without "within": as precise as a number of two digits.
    double value, within = 0.05;
    int word;
    TRY(strict_word(query, "compare", words, &word));
    TRY(query_number(query, "value", 0, &value));
    if (query_has(query, "within"))
        TRY(strict_real(query, "within", &within));
    if (within < 0)
        return strict_fail(query, "within", "is %g, expected a fraction of the value such as 0.05", within);
    TRY(expression_number(query, 0, measured));
    const bool holds[] = {*measured<value, *measured <= value, *measured> value, *measured >= value, *measured == value,
                          fabs(*measured - value) <= within * fabs(value)};
    *out = holds[word];
    return ERR_NONE;
}

// Evaluates a comparison, a boolean expression, or {"all": [...]} or {"any": [...]} of queries. Evaluates every part,
// so that errors in any of them are reported.
static int object_holds(const struct strict_object *query, int depth, bool *out, double *measured)
{
    bool all = query_has(query, "all");
    const char *const keys[] = {all ? "all" : "any", NULL};
    const json_t *parts;
    size_t count;
    *measured = NAN;
    if (depth > QUERY_DEPTH_MAX)
        return strict_fail(query, "", "is more than %d queries deep", QUERY_DEPTH_MAX);
    if (!all && !query_has(query, "any")) {
        if (query_has(query, "compare"))
            return comparison_holds(query, out, measured);
        if (!query_has(query, "accepts") && !query_has(query, "overflows"))
            return strict_fail(query, "compare", "missing: one of <, <=, >, >=, ==, about, and beside it a value");
        double truth;
        TRY(expression_number(query, 0, &truth));
        *out = truth != 0;
        return ERR_NONE;
    }
    TRY(strict_keys(query, keys));
    TRY(strict_array(query, keys[0], 1, OPERAND_MAX, &parts, &count));
    *out = all;
    for (size_t i = 0; i < count; i++) {
        struct strict_object part;
        bool holds;
        TRY(strict_element(query, keys[0], parts, i, &part));
        TRY(object_holds(&part, depth + 1, &holds, measured));
        *out = all ? *out && holds : *out || holds;
    }
    if (count > 1)
        *measured = NAN;
    return ERR_NONE;
}

int query_holds(const struct strict_object *object, const char *key, bool *out, double *measured)
{
    struct strict_object query;
    TRY(strict_object_of(object, key, &query));
    return object_holds(&query, 0, out, measured);
}

int query_text(const char *file, const char *text, size_t bytes,
               int (*visit)(const struct strict_object *root, void *context), void *context)
{
    struct json_text parsed;
    TRY(json_text_parse(file, text, bytes, &parsed));
    const struct strict_object root = strict_root(&parsed);
    int rc = visit(&root, context);
    json_text_close(&parsed);
    return rc;
}

int query_print(json_t *line, FILE *out)
{
    int rc =
        line && json_dumpf(line, out, JSON_COMPACT) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a record");
    fputc('\n', out);
    json_decref(line);
    return rc;
}
