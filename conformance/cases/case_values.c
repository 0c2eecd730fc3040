// SPDX-License-Identifier: Apache-2.0
// All numbers of a case in memory: the generator's, and the pokes in their places; or zeros that the caller replaces.
#include "conformance/cases/case_values.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/cases/generator.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct case_values {
    struct check_case logical;
    const struct check_case *c;  // the logical one
    float *initial[CASE_PARAM_MAX];
    float **gradients;  // [step - 1][micro][rank][param]; NULL for those without a gradient
    float *numbers;     // all of them: the pointers above point here
};

static size_t slot_count(const struct check_case *c)
{
    return (size_t)c->steps * (size_t)c->accumulation * (size_t)c->world;
}

static size_t gradient_at(const struct check_case *c, int step, int micro, int rank, int param)
{
    size_t slot = ((size_t)(step - 1) * (size_t)c->accumulation + (size_t)micro) * (size_t)c->world + (size_t)rank;
    return slot * (size_t)c->param_count + (size_t)param;
}

static size_t number_count(const struct check_case *c)
{
    size_t count = 1;
    for (int i = 0; i < c->param_count; i++) {
        count += c->params[i].tied_to < 0 ? c->params[i].count : 0;
        count += case_is_used(c, i) ? c->params[i].count * slot_count(c) : 0;
    }
    return count;
}

// Points each tensor to its numbers.
static void place(struct case_values *values)
{
    const struct check_case *c = values->c;
    float *next = values->numbers;
    for (int i = 0; i < c->param_count; i++) {
        values->initial[i] = c->params[i].tied_to < 0 ? next : NULL;
        next += c->params[i].tied_to < 0 ? c->params[i].count : 0;
    }
    for (size_t slot = 0; slot < slot_count(c); slot++)
        for (int i = 0; i < c->param_count; i++) {
            bool used = case_is_used(c, i);
            values->gradients[slot * (size_t)c->param_count + (size_t)i] = used ? next : NULL;
            next += used ? c->params[i].count : 0;
        }
}

static void fill_initial(struct case_values *values)
{
    const struct check_case *c = values->c;
    for (int i = 0; i < c->param_count; i++)
        for (size_t e = 0; values->initial[i] && e < c->params[i].count; e++)
            values->initial[i][e] = generator_initial(c, i, e);
}

static void fill_gradients(struct case_values *values)
{
    const struct check_case *c = values->c;
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int rank = 0; rank < c->world; rank++)
                for (int i = 0; i < c->param_count; i++) {
                    float *gradient = values->gradients[gradient_at(c, step, micro, rank, i)];
                    bool some =
                        case_is_used_in(c, i, step, micro) && (!c->has_tokens || case_tokens(c, step, micro, rank));
                    if (some)
                        generator_gradients(c, step, micro, rank, i, gradient);
                }
}

// ERR_INTERNAL: a poke that hits nothing.
static int poke(struct case_values *values)
{
    const struct check_case *c = values->c;
    for (int i = 0; i < c->data.poke_count; i++) {
        const struct case_poke *p = &c->data.pokes[i];
        bool inside = p->step >= 1 && p->step <= c->steps && p->micro >= 0 && p->micro < c->accumulation &&
                      p->rank >= 0 && p->rank < c->world && p->param >= 0 && p->param < c->param_count;
        if (!inside || !case_is_used_in(c, p->param, p->step, p->micro) || p->element >= c->params[p->param].count)
            return err_set(ERR_INTERNAL, "case %s: its single value %d is in no gradient", c->name, i);
        values->gradients[gradient_at(c, p->step, p->micro, p->rank, p->param)][p->element] = p->value;
    }
    return ERR_NONE;
}

int case_values_blank(const struct check_case *c, struct case_values **out)
{
    struct case_values *values = *out = calloc(1, sizeof *values);
    if (!values)
        return err_set(ERR_MEMORY, "no memory for the numbers of case %s", c->name);
    case_logical(c, &values->logical);
    c = values->c = &values->logical;
    values->gradients = calloc(slot_count(c) * (size_t)c->param_count + 1, sizeof(float *));
    values->numbers = calloc(number_count(c), sizeof(float));
    if (values->gradients && values->numbers) {
        place(values);
        return ERR_NONE;
    }
    case_values_close(values);
    *out = NULL;
    return err_set(ERR_MEMORY, "no memory for the numbers of case %s", c->name);
}

int case_values_copy(const struct check_case *c, const struct case_values *from, struct case_values **out)
{
    TRY(case_values_blank(c, out));
    assert(number_count((*out)->c) == number_count(from->c));
    memcpy((*out)->numbers, from->numbers, number_count(from->c) * sizeof(float));
    return ERR_NONE;
}

int case_values_open(const struct check_case *c, struct case_values **out)
{
    TRY(case_values_blank(c, out));
    fill_initial(*out);
    fill_gradients(*out);
    int rc = poke(*out);
    if (rc != ERR_NONE) {
        case_values_close(*out);
        *out = NULL;
    }
    return rc;
}

void case_values_close(struct case_values *values)
{
    if (!values)
        return;
    free(values->gradients);
    free(values->numbers);
    free(values);
}

const float *case_initial(const struct case_values *values, int param)
{
    return values->initial[param];
}

const float *case_gradient(const struct case_values *values, int step, int micro, int rank, int param)
{
    assert(micro >= 0 && rank >= 0 && param >= 0);
    return values->gradients[gradient_at(values->c, step, micro, rank, param)];
}

float *case_values_initial(struct case_values *values, int param)
{
    return values->initial[param];
}

float *case_values_gradient(struct case_values *values, int step, int micro, int rank, int param)
{
    assert(micro >= 0 && rank >= 0 && param >= 0);
    return values->gradients[gradient_at(values->c, step, micro, rank, param)];
}
