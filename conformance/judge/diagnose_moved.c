// SPDX-License-Identifier: Apache-2.0
// Finds gradients of other elements: all at one distance, or in another order; and steps that met other states than the
// step before left: with the right gradient, the first moment follows from a number that was the state of another
// element, or another state of this one; or the parameter from that of an element at a fixed distance.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// True if all values are moved by one distance. Values from outside the row are unknown, and must be the minority.
static bool is_shifted(struct row *row)
{
    long reach = row->count < 128 ? (long)row->count : 128;
    for (long shift = -reach; shift <= reach; shift++) {
        size_t inside = 0;
        for (size_t at = 0; at < row->count; at++) {
            long from = (long)at + shift;
            bool is_inside = from >= 0 && from < (long)row->count;
            row->guess[at] = is_inside ? row->expected[from] : row->used[at];
            inside += is_inside && row->wrong_moment[at];
        }
        if (shift != 0 && inside * 2 >= row->wrong_moment_count && inside >= ROW_TELLING_COUNT && row_guessed(row))
            return true;
    }
    return false;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The first of a sorted list that is not below a number; the count: all are.
static size_t lower_bound(const double *sorted, size_t count, double number)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// True if a sorted list has a number near this one.
static bool has_near(const double *sorted, size_t count, double number)
{
    size_t at = lower_bound(sorted, count, number);
    return (at < count && value_near(sorted[at], number)) || (at > 0 && value_near(sorted[at - 1], number));
}

// True if nearly all values belong to other elements: pieces in another order. A few may coincide by chance. What
// follows from outside the row may be no number, and must be the minority.
static bool is_permuted(struct row *row)
{
    size_t moved = 0, numbers = 0;
    memcpy(row->guess, row->expected, row->count * sizeof *row->guess);
    qsort(row->guess, row->count, sizeof *row->guess, compare_numbers);
    for (size_t at = 0; at < row->count; at++) {
        numbers += row->wrong_moment[at] && isfinite(row->used[at]);
        moved += row->wrong_moment[at] && row->used[at] != 0.0 && has_near(row->guess, row->count, row->used[at]);
    }
    return moved >= ROW_TELLING_COUNT && moved * 10 >= numbers * 9 && moved * 2 >= row->wrong_moment_count;
}

bool diagnose_moved(struct row *row)
{
    return is_shifted(row) || is_permuted(row);
}

// As many first moments are more than chance.
enum { TELLING_COUNT = 8 };

// As many parameters at one distance are more, and the largest distance.
enum { TELLING_PARAMS = 2, REACH = 128 };

struct states {
    double *sorted;  // all states, before the step and after a right one
    size_t count;
};

static bool gather(const struct row *row, struct states *out)
{
    const struct unsharded_state *all[] = {&row->trial->before, &row->trial->expected};
    *out = (struct states){.sorted = malloc(6 * (row->count + 1) * sizeof *out->sorted)};
    for (int k = 0; k < 2 && out->sorted; k++)
        for (int param = 0; param < row->trial->c->param_count; param++)
            for (size_t i = 0; trial_compares(row->trial, param) && i < row->trial->c->params[param].count; i++) {
                const float values[] = {all[k]->param[param][i], all[k]->exp_avg[param][i],
                                        all[k]->exp_avg_sq[param][i]};
                for (int state = 0; state < 3; state++)
                    if (isfinite(values[state]) && values[state] != 0)
                        out->sorted[out->count++] = (double)values[state];
            }
    if (out->sorted)
        qsort(out->sorted, out->count, sizeof *out->sorted, compare_numbers);
    return out->sorted;
}

static bool has(const struct states *states, double number, double error)
{
    size_t at = lower_bound(states->sorted, states->count, number - error);
    return at < states->count && states->sorted[at] <= number + error;
}

// True if a first moment was another state, before its update or after it.
static bool is_another(const struct row *row, const struct states *states, int param, size_t i)
{
    const struct trial *trial = row->trial;
    double beta1 = trial->c->groups[trial->c->params[param].group].beta1;
    double m0 = (double)trial->before.exp_avg[param][i], m1 = (double)trial->after.exp_avg[param][i];
    double right = (double)trial->expected.exp_avg[param][i];
    double met = m0 + (m1 - right) / beta1, error = 0x1p-21 * (fabs(m1) + fabs(right)) / beta1;
    return (fabs(met) > 4 * error && has(states, met, error)) || (m1 != 0 && has(states, m1, 0));
}

bool diagnose_states(const struct row *row)
{
    const struct trial *trial = row->trial;
    struct states states;
    size_t others = 0;
    if (row->wrong_moment_count < TELLING_COUNT || !gather(row, &states))
        return false;
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++)
            others += row->wrong_moment[row->begin[param] + i] && is_another(row, &states, param, i);
    free(states.sorted);
    return others * 10 >= row->wrong_moment_count * 9;
}

// The parameters of all compared elements, in the row's order.
struct params {
    float *before, *expected, *after;
    double *met;  // that the update began with, if it was made with the right moments
};

static bool open_params(const struct row *row, struct params *out)
{
    const struct trial *trial = row->trial;
    out->before = malloc(3 * (row->count + 1) * sizeof *out->before);
    out->met = malloc((row->count + 1) * sizeof *out->met);
    if (!out->before || !out->met)
        return false;
    out->expected = out->before + row->count + 1;
    out->after = out->expected + row->count + 1;
    for (int param = 0; param < trial->c->param_count; param++) {
        const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
        double kept = group->decoupled ? 1 - group->lr[row->step - 1] * group->weight_decay : 1;
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            size_t at = row->begin[param] + i;
            out->before[at] = trial->before.param[param][i];
            out->expected[at] = trial->expected.param[param][i];
            out->after[at] = trial->after.param[param][i];
            out->met[at] = (double)out->before[at] + ((double)out->after[at] - (double)out->expected[at]) / kept;
        }
    }
    return true;
}

static void close_params(struct params *params)
{
    free(params->before);
    free(params->met);
}

static bool are_params_from(const struct row *row, const struct params *p, long distance)
{
    size_t found = 0;
    for (size_t at = 0; at < row->count; at++) {
        long from = (long)at + distance;
        if (!row->wrong[at])
            continue;
        if (from < 0 || from >= (long)row->count)
            return false;
        double error = 0x1p-21 * (fabs((double)p->before[at]) + fabs((double)p->after[at]));
        if (p->after[at] != p->before[from] && p->after[at] != p->expected[from] &&
            !(fabs(p->met[at] - (double)p->before[from]) <= error))
            return false;
        // Equal neighbours tell nothing.
        found += p->before[at] != p->before[from];
    }
    return found >= TELLING_PARAMS;
}

bool diagnose_shifted_params(const struct row *row)
{
    struct params params = {0};
    bool found = false;
    if (row_all_wrong(row, diagnose_is_parameter_alone) && open_params(row, &params))
        for (long distance = -REACH; distance <= REACH && !found; distance++)
            found = distance != 0 && are_params_from(row, &params, distance);
    close_params(&params);
    return found;
}
