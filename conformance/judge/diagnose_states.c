// SPDX-License-Identifier: Apache-2.0
// Finds steps that met other states than the step before left: with the right gradient, the first moment follows from a
// number that was the state of another element, or another state of this one.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// As many first moments are more than chance.
enum { TELLING_COUNT = 8 };

struct states {
    double *sorted;  // all states, before the step and after a right one
    size_t count;
};

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

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
    size_t low = 0, high = states->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (states->sorted[middle] < number - error)
            low = middle + 1;
        else
            high = middle;
    }
    return low < states->count && states->sorted[low] <= number + error;
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
