// SPDX-License-Identifier: Apache-2.0
// Reads an expression by precedence climbing and evaluates it meanwhile.
#include "plan/claims/expression.h"

#include "ref/arithmetic/dtype.h"
#include "base/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct expression *expression;
    const struct expression_names *names;
    struct expression_result *result;
    const char *at;
};

// From the loosest to the tightest.
enum level { EITHER, BOTH, COMPARISON, SUM, PRODUCT, EXPONENT, TERM };
enum operation { OR, AND, AT_MOST, AT_LEAST, EQUAL, LESS, MORE, ABOUT, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER };
static const struct {
    const char *symbol;
    enum level level;
} operators[] = {{"or", EITHER},    {"and", BOTH},     {"<=", COMPARISON},    {">=", COMPARISON}, {"==", COMPARISON},
                 {"<", COMPARISON}, {">", COMPARISON}, {"about", COMPARISON}, {"+", SUM},         {"-", SUM},
                 {"*", PRODUCT},    {"/", PRODUCT},    {"^", EXPONENT}};

static const char NAME[] = "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char *const LETTERS = NAME + 10;

static int read_level(struct reader *r, enum level level, double *out);

static int refuse(const struct reader *r, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    text_message(shown, r->at, 32);
    return strict_fail(r->expression->object, r->expression->key, *r->at ? "%s at \"%s\"" : "%s at its end", what,
                       shown);
}

// Steps over a symbol, or over a whole word, if it is next.
static bool accept(struct reader *r, const char *symbol)
{
    size_t length = strlen(symbol);
    r->at += strspn(r->at, " ");
    if (strncmp(r->at, symbol, length) != 0 || (strchr(LETTERS, *symbol) && strspn(r->at + length, NAME) > 0))
        return false;
    r->at += length;
    return true;
}

// A format rounds what its parentheses enclose by the conversions that the stages use.
static double rounded(const char *format, float value)
{
    return strcmp(format, "bf16") == 0   ? bf16_to_f32(f32_to_bf16(value))
           : strcmp(format, "fp16") == 0 ? fp16_to_f32(f32_to_fp16(value))
                                         : value;
}

static int read_path(struct reader *r, double *out)
{
    char path[EXPRESSION_PATH_BYTES];
    size_t length = strspn(r->at, NAME);
    while (r->at[length] == '.')
        length += r->at[length + 1] == '*' ? 2 : 1 + strspn(r->at + length + 1, NAME);
    if (length == 0 || length >= sizeof path)
        return refuse(r, length ? "expected a shorter name" : "expected a number, a name or \"(\"");
    memcpy(path, r->at, length);
    path[length] = '\0';
    r->at += length;
    return r->names->value(r->names, r->expression, path, out);
}

static int read_term(struct reader *r, double *out)
{
    static const char *const formats[] = {"fp32", "bf16", "fp16", NULL};
    const char *const *format = formats;
    char *end;
    if (++*r->names->term_count > EXPRESSION_TERM_MAX)
        return refuse(r, "needs too many terms, maybe because a name denotes itself,");
    while (*format && !accept(r, *format))
        format++;
    if (accept(r, "(")) {
        TRY(read_level(r, EITHER, out));
        *out = *format ? rounded(*format, (float)*out) : *out;
        return accept(r, ")") ? ERR_NONE : refuse(r, "expected \")\"");
    }
    if (*format)
        return refuse(r, "expected \"(\"");
    if (*r->at < '0' || *r->at > '9')
        return read_path(r, out);
    *out = strtod(r->at, &end);
    r->at = end;
    return ERR_NONE;
}

static int apply(struct reader *r, enum operation operation, double left, double right, double *out)
{
    double within = 0.05;  // as precise as a number of two digits
    if (operation == ABOUT && accept(r, "within"))
        TRY(read_level(r, SUM, &within));
    if (within < 0 || (operation == DIVIDE && right == 0))
        return refuse(r, within < 0 ? "\"within\" is negative" : "division by zero");
    *out = operation == OR         ? left != 0 || right != 0
           : operation == AND      ? left != 0 && right != 0
           : operation == AT_MOST  ? left <= right
           : operation == AT_LEAST ? left >= right
           : operation == EQUAL    ? left == right
           : operation == LESS     ? left < right
           : operation == MORE     ? left > right
           : operation == ABOUT    ? fabs(left - right) <= within * fabs(right)
           : operation == ADD      ? left + right
           : operation == SUBTRACT ? left - right
           : operation == MULTIPLY ? left * right
           : operation == DIVIDE   ? left / right
                                   : pow(left, right);
    if (operators[operation].level == COMPARISON) {
        r->result->compared = left;
        r->result->comparison_count++;
    }
    return ERR_NONE;
}

// Reads operands, which bind tighter, and folds them from the left.
static int read_level(struct reader *r, enum level level, double *out)
{
    double right;
    if (level == TERM)
        return read_term(r, out);
    TRY(read_level(r, level + 1, out));
    for (enum operation operation = OR; operation <= POWER; operation++) {
        while (operators[operation].level == level && accept(r, operators[operation].symbol)) {
            TRY(read_level(r, level + 1, &right));
            TRY(apply(r, operation, *out, right, out));
            operation = OR;
        }
    }
    return ERR_NONE;
}

int expression_evaluate(const struct expression *expression, const struct expression_names *names,
                        struct expression_result *out)
{
    const json_t *value = json_object_get(expression->object->value, expression->key);
    char shown[TEXT_MESSAGE_BYTES];
    struct reader r = {.expression = expression, .names = names, .result = out, .at = json_string_value(value)};
    *out = (struct expression_result){.value = json_number_value(value), .compared = NAN};
    if (json_is_number(value))
        return ERR_NONE;
    if (!r.at)
        return strict_fail(expression->object, expression->key, "is %s, expected a number or an expression",
                           json_message(shown, value));
    TRY(read_level(&r, EITHER, &out->value));
    return *r.at ? refuse(&r, "expected an operator") : ERR_NONE;
}
