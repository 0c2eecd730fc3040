// SPDX-License-Identifier: Apache-2.0
// Reads an expression by precedence climbing and evaluates it meanwhile.
#include "plan/papers/expression.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct expression *expression;
    const struct expression_names *names;
    const char *at;
};

// From the loosest to the tightest.
enum level { SUM, PRODUCT, EXPONENT, TERM };
static const char *const operators[] = {"+-", "*/", "^"};

static const char NAME[] = "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static int read_level(struct reader *r, enum level level, double *out);

static int refuse(const struct reader *r, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    text_message(shown, r->at, 32);
    return strict_fail(r->expression->object, r->expression->key, *r->at ? "%s at \"%s\"" : "%s at its end", what,
                       shown);
}

// Steps over one of these symbols if it is next, and returns it; else 0.
static char accept(struct reader *r, const char *symbols)
{
    r->at += strspn(r->at, " ");
    return *r->at && strchr(symbols, *r->at) ? *r->at++ : '\0';
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
    char *end;
    if (++*r->names->term_count > EXPRESSION_TERM_MAX)
        return refuse(r, "needs too many terms, maybe because a name denotes itself,");
    if (accept(r, "(")) {
        TRY(read_level(r, SUM, out));
        return accept(r, ")") ? ERR_NONE : refuse(r, "expected \")\"");
    }
    if (*r->at < '0' || *r->at > '9')
        return read_path(r, out);
    *out = strtod(r->at, &end);
    r->at = end;
    return ERR_NONE;
}

// Reads operands, which bind tighter, and folds them from the left.
static int read_level(struct reader *r, enum level level, double *out)
{
    double right;
    char operator;
    if (level == TERM)
        return read_term(r, out);
    TRY(read_level(r, level + 1, out));
    while ((operator= accept(r, operators[level]))) {
        TRY(read_level(r, level + 1, &right));
        if (operator== '/' && right == 0)
            return refuse(r, "division by zero");
        *out = operator== '+' ? *out + right :
               operator== '-' ? *out - right
               :
               operator== '*' ? *out * right
               :
               operator== '/' ? *out / right
                              : pow(*out, right);
    }
    return ERR_NONE;
}

int expression_evaluate(const struct expression *expression, const struct expression_names *names, double *out)
{
    const json_t *value = json_object_get(expression->object->value, expression->key);
    char shown[TEXT_MESSAGE_BYTES];
    struct reader r = {expression, names, json_string_value(value)};
    *out = json_number_value(value);
    if (json_is_number(value))
        return ERR_NONE;
    if (!r.at)
        return strict_fail(expression->object, expression->key, "is %s, expected a number or an expression",
                           json_message(shown, value));
    TRY(read_level(&r, SUM, out));
    return *r.at ? refuse(&r, "expected an operator") : ERR_NONE;
}
