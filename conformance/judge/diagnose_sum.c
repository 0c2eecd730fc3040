// SPDX-License-Identifier: Apache-2.0
// Finds sums with the right gradients in them, but too few or too often: without one use of a tied parameter, or with
// weights that differ between ranks or micro-steps.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A weight is believed if at least this many elements speak for each.
enum { ELEMENTS_PER_WEIGHT = 4, WEIGHT_COUNT_MAX = 32 };

// True if gradients have gone through a 16-bit format on their way.
static bool goes_short(const struct row *row)
{
    const struct check_case *c = row->trial->c;
    return c->communication_dtype != DTYPE_FP32 || c->accumulation_dtype != DTYPE_FP32;
}

void row_allow_short(struct row *row)
{
    const struct trial *trial = row->trial;
    const struct check_case *c = trial->c;
    row->is_short = goes_short(row);
    memset(row->magnitude, 0, row->count * sizeof *row->magnitude);
    for (int step = row->step; step >= 1 && step >= row->step - 1 && row->is_short; step--)
        for (int param = 0; param < c->param_count; param++)
            for (int k = 0; k < c->world * c->accumulation; k++) {
                int owner = case_owner(c, param);
                const float *g = case_gradient(trial->values, step, k / c->world, k % c->world, param);
                for (size_t i = 0; trial_compares(trial, owner) && g && i < c->params[param].count; i++)
                    row->magnitude[row->begin[owner] + i] += fabs((double)g[i]) / case_mean_count(c, step);
            }
}

int row_rank_masks(const struct row *row, uint64_t masks[RANK_MASK_MAX])
{
    static const enum mesh_kind kinds[] = {MESH_SHARD, MESH_REPLICATE, MESH_EXPERT};
    const struct check_case *c = row->trial->c;
    struct mesh whole = case_mesh(row->trial->answer->c), mesh = mesh_of_data(&whole);
    int count = 0;
    while (count < c->world) {
        masks[count] = 1ull << count;
        count++;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int size = mesh_group_size(&mesh, kinds[i]);
        for (int group = 0; size > 1 && size < c->world && group < mesh_group_count(&mesh, kinds[i]); group++) {
            masks[count] = 0;
            for (int k = 0; k < size; k++)
                masks[count] |= 1ull << mesh_rank_at(&mesh, kinds[i], group, k);
            count++;
        }
    }
    return count;
}

// Notes the elements of a parameter that the guess explains.
static void note_owner(struct row *row, int owner)
{
    double limit = goes_short(row) ? 0x1p-6 : 0x1p-16;
    for (size_t at = row->begin[owner]; at < row->begin[owner + 1]; at++) {
        double size = fabs(row->guess[at]) + fabs(row->expected[at]);
        row->fits[at] |= fabs(row->guess[at] - row->used[at]) <= limit * size;
    }
}

// Notes those that its mean explains without the gradients of one use in these micro-steps.
static void note_without(struct row *row, int owner, int use, uint64_t micros)
{
    const struct check_case *c = row->trial->c;
    double each = 1 / case_mean_count(c, row->step);
    memset(row->guess, 0, row->count * sizeof *row->guess);
    for (int i = owner; i < c->param_count; i++)
        if (case_owner(c, i) == owner)
            row_add_use(row, i, &(struct addends){row->step, ~0ull, ~0ull, each});
    row_add_use(row, use, &(struct addends){row->step, ~0ull, micros, -each});
    note_owner(row, owner);
}

// Notes those that the gradients of one use explain alone.
static void note_use(struct row *row, int owner, int use)
{
    const struct check_case *c = row->trial->c;
    memset(row->guess, 0, row->count * sizeof *row->guess);
    row_add_use(row, use, &(struct addends){row->step, ~0ull, ~0ull, 1 / case_mean_count(c, row->step)});
    note_owner(row, owner);
}

// All wrong elements are explained, and more of them than chance explains.
static bool is_explained(const struct row *row)
{
    size_t count = 0;
    for (size_t at = 0; at < row->count; at++) {
        if (row->wrong_moment[at] && !row->fits[at])
            return false;
        count += row->wrong_moment[at];
    }
    return count >= ELEMENTS_PER_WEIGHT;
}

bool diagnose_use(struct row *row)
{
    const struct check_case *c = row->trial->c;
    memset(row->fits, 0, row->count);
    for (int use = 0; use < c->param_count; use++) {
        int owner = case_owner(c, use);
        if (owner == use || !trial_compares(row->trial, owner))
            continue;
        // In all micro-steps, or in all but the first; the owner's own or this one.
        for (int i = 0; i < 4; i++)
            note_without(row, owner, i % 2 ? owner : use, i < 2 ? ~0ull : ~1ull);
        note_use(row, owner, owner);
        note_use(row, owner, use);
    }
    return is_explained(row);
}

// The least-squares problem for the weights w of `count` columns: matrix x w = right.
struct equations {
    int count;
    double matrix[WEIGHT_COUNT_MAX][WEIGHT_COUNT_MAX], right[WEIGHT_COUNT_MAX];
};

static void add_element(struct equations *e, const struct row *row, const double *columns, size_t at)
{
    // Every element counts alike, however small its gradient is.
    double size = fabs(row->used[at]);
    for (int i = 0; i < e->count; i++)
        size = fmax(size, fabs(columns[(size_t)i * row->count + at]));
    for (int i = 0; i < e->count && size > 0; i++) {
        double x = columns[(size_t)i * row->count + at] / size;
        for (int k = 0; k < e->count; k++)
            e->matrix[i][k] += x * columns[(size_t)k * row->count + at] / size;
        e->right[i] += x * row->used[at] / size;
    }
}

// Gaussian elimination; false if the columns do not determine the weights, or if one is missing.
static bool solve(struct equations *e)
{
    for (int i = 0; i < e->count; i++) {
        if (!(fabs(e->matrix[i][i]) > 1e-9))
            return false;
        for (int k = 0; k < e->count; k++) {
            double factor = k == i ? 0 : e->matrix[k][i] / e->matrix[i][i];
            for (int j = 0; j < e->count && k != i; j++)
                e->matrix[k][j] -= factor * e->matrix[i][j];
            e->right[k] -= factor * e->right[i];
        }
    }
    for (int i = 0; i < e->count; i++) {
        e->right[i] /= e->matrix[i][i];
        if (!(e->right[i] * e->count > 0.1))
            return false;
    }
    return true;
}

// By more than roundings of a sum in 16 bits.
static bool are_unequal(const struct equations *e)
{
    double least = e->right[0], most = e->right[0];
    for (int i = 1; i < e->count; i++) {
        least = fmin(least, e->right[i]);
        most = fmax(most, e->right[i]);
    }
    return most > 1.1 * least;
}

// True if the weights give every gradient that was used, up to roundings of the dtypes that it went through.
static bool explains(const struct equations *e, const struct row *row, const double *columns)
{
    double limit = goes_short(row) ? 0x1p-6 : 0x1p-16;
    for (size_t at = 0; at < row->count; at++) {
        double sum = 0, size = 0;
        for (int i = 0; i < e->count; i++) {
            double addend = e->right[i] * columns[(size_t)i * row->count + at];
            sum += addend;
            size += fabs(addend);
        }
        if (row->wrong_moment[at] && !(fabs(sum - row->used[at]) <= limit * size))
            return false;
    }
    return true;
}

// The gradients of every rank and micro-step, one column after the other.
static void fill_columns(struct row *row, double *columns)
{
    const struct check_case *c = row->trial->c;
    for (int i = 0; i < c->world * c->accumulation; i++) {
        memset(row->guess, 0, row->count * sizeof *row->guess);
        row_add(row, &(struct addends){row->step, 1ull << i % c->world, 1ull << i / c->world, 1});
        memcpy(columns + (size_t)i * row->count, row->guess, row->count * sizeof *row->guess);
    }
}

bool diagnose_weights(struct row *row)
{
    const struct check_case *c = row->trial->c;
    struct equations e = {.count = c->world * c->accumulation};
    if (e.count < 2 || e.count > WEIGHT_COUNT_MAX || row->wrong_moment_count < (size_t)(ELEMENTS_PER_WEIGHT * e.count))
        return false;
    double *columns = malloc((size_t)e.count * row->count * sizeof *columns);
    if (!columns)
        return false;
    fill_columns(row, columns);
    for (size_t at = 0; at < row->count; at++)
        if (row->wrong_moment[at] && isfinite(row->used[at]))
            add_element(&e, row, columns, at);
    bool found = solve(&e) && are_unequal(&e) && explains(&e, row, columns);
    free(columns);
    return found;
}
