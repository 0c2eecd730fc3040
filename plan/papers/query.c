// SPDX-License-Identifier: Apache-2.0
#include "plan/papers/query.h"

#include "base/err.h"

#include <math.h>
#include <string.h>

// Returns the value given for a name in the innermost scope that has one, *by; null: none has.
static const json_t *find(const struct query_scope *scope, const char *name, const struct query_scope **by)
{
    const json_t *value = NULL;
    for (*by = scope; *by; *by = (*by)->outer)
        if ((value = json_object_get(json_object_get((*by)->object->value, "given"), name)))
            break;
    return value;
}

// The basis of the outermost scope.
static struct query_basis *basis_of(const struct query_scope *scope)
{
    static struct query_basis unused;
    while (scope->outer)
        scope = scope->outer;
    return scope->basis ? scope->basis : &unused;
}

// Evaluates a plan or a printed number, in which "$NAME" denotes what is given for NAME.
static int object_value(const struct query_scope *scope, const struct strict_object *object, const char *path,
                        double *out)
{
    struct strict_object filled = *object;
    const struct query_scope *by;
    const char *key;
    json_t *copy = json_copy((json_t *)(uintptr_t)object->value), *member;
    json_object_foreach ((json_t *)(uintptr_t)object->value, key, member) {
        const char *text = json_string_value(member);
        const json_t *value = text && *text == '$' ? find(scope, text + 1, &by) : NULL;
        if (value)
            json_object_set(copy, key, (json_t *)(uintptr_t)value);
    }
    filled.value = copy;
    bool is_printed = query_has(object, "printed");
    basis_of(scope)->plan |= !is_printed;
    int rc = is_printed ? query_printed_number(&filled, out) : query_plan_number(&filled, path, out);
    json_decref(copy);
    return rc;
}

static int name_value(const struct expression_names *names, const struct expression *expression, const char *path,
                      double *out)
{
    struct strict_object given, object;
    const struct query_scope *by, inner = {&object, names->context, NULL};
    char name[EXPRESSION_PATH_BYTES];
    size_t length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    const json_t *value = find(names->context, name, &by);
    bool is_equation = json_object_get(value, "equation");
    bool is_number = json_object_get(value, "printed");
    basis_of(names->context)->equation |= is_equation || !value;
    if (!value && !path[length])
        return query_equation_number(name, expression, names, out);
    if (path[length] && (!json_is_object(value) || is_equation || is_number))
        return strict_fail(expression->object, expression->key, "names %s, but %s is not given as a plan", path, name);
    TRY(strict_object_of(by->object, "given", &given));
    if (json_is_object(value))
        TRY(strict_object_of(&given, name, &object));
    if (is_equation) {
        const struct expression_names of_equation = {name_value, &inner, names->term_count};
        TRY(strict_only(&object, "equation ?given"));
        TRY(strict_string(&object, "equation", name, sizeof name));
        return query_equation_number(name, &(struct expression){&object, "equation"}, &of_equation, out);
    }
    if (json_is_object(value))
        return object_value(names->context, &object, path + length + (path[length] == '.'), out);
    return expression_evaluate(&(struct expression){&given, name}, names, out);
}

int query_number(const struct query_scope *scope, const struct strict_object *object, const char *key, double *out)
{
    int term_count = 0;
    const struct expression_names names = {name_value, scope, &term_count};
    TRY(expression_evaluate(&(struct expression){object, key}, &names, out));
    return isfinite(*out) ? ERR_NONE : strict_fail(object, key, "has no finite value");
}
