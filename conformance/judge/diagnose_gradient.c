// SPDX-License-Identifier: Apache-2.0
// Finds the gradient that was used: the expected one times a factor, or the gradient of some ranks, micro-steps or
// earlier steps.
#include "conformance/cases/case_tokens.h"
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <string.h>

// The roundings of a sum in 16 bits, where row->is_short allows for them.
static double slack(const struct row *row, size_t at)
{
    return row->is_short ? 0x1p-7 * row->magnitude[at] : 0;
}

// The same gradient, but for these roundings.
static bool is_near(const struct row *row, size_t at, double a, double b)
{
    return value_near(a, b) || (row->is_short && fabs(a - b) <= fmax(slack(row, at), 0x1p-6 * fmax(fabs(a), fabs(b))));
}

bool row_guessed(const struct row *row)
{
    bool tells = false;
    for (size_t at = 0; at < row->count; at++) {
        if (!row->wrong_moment[at])
            continue;
        if (!is_near(row, at, row->guess[at], row->used[at]))
            return false;
        tells |= !is_near(row, at, row->guess[at], row->expected[at]);
    }
    return tells;
}

// Bits of row->fits: a guess explains the element's gradient; by chance one would explain another element's, too.
enum { FITS = 1, FITS_BY_CHANCE = 2 };

// Notes which elements row->guess explains.
static void note(const struct row *row)
{
    for (size_t at = 0; at < row->count; at++) {
        double other = row->used[(at + row->count / 2) % row->count];
        row->fits[at] |= is_near(row, at, row->guess[at], row->used[at]) ? FITS : 0;
        row->fits[at] |= is_near(row, at, row->guess[at], other) ? FITS_BY_CHANCE : 0;
    }
}

// True if the noted guesses together explain every wrong element, and do not explain nearly any other gradient as well,
// as many ranks' do where there are few different numbers.
static bool noted_all(const struct row *row)
{
    size_t by_chance = 0;
    for (size_t at = 0; at < row->count; at++) {
        if (row->wrong_moment[at] && !(row->fits[at] & FITS))
            return false;
        by_chance += row->wrong_moment[at] && row->fits[at] & FITS_BY_CHANCE;
    }
    return row->wrong_moment_count >= ROW_TELLING_COUNT && by_chance * 10 < row->wrong_moment_count * 9;
}

static bool is_chosen(uint64_t mask, int i)
{
    return mask >> i & 1;
}

void row_add_use(struct row *row, int param, const struct addends *addends)
{
    const struct trial *trial = row->trial;
    const struct check_case *c = trial->c;
    int owner = case_owner(c, param);
    for (int rank = 0; trial_compares(trial, owner) && rank < c->world; rank++)
        for (int micro = 0; micro < c->accumulation; micro++) {
            bool chosen = is_chosen(addends->ranks, rank) && is_chosen(addends->micros, micro);
            const float *g = chosen ? case_gradient(trial->values, addends->step, micro, rank, param) : NULL;
            for (size_t i = 0; g && i < c->params[param].count; i++)
                row->guess[row->begin[owner] + i] += addends->weight * (double)g[i];
        }
}

void row_add(struct row *row, const struct addends *addends)
{
    for (int param = 0; param < row->trial->c->param_count; param++)
        row_add_use(row, param, addends);
}

static void add_sum(struct row *row, int step, uint64_t ranks, uint64_t micros, double weight)
{
    row_add(row, &(struct addends){step, ranks, micros, weight});
}

static void guess_sum(struct row *row, int step, uint64_t ranks, uint64_t micros, double weight)
{
    memset(row->guess, 0, row->count * sizeof *row->guess);
    add_sum(row, step, ranks, micros, weight);
}

static int mask_size(uint64_t mask)
{
    int size = 0;
    for (; mask; mask &= mask - 1)
        size++;
    return size;
}

// True if the gradient of one rank or group was used, weighted as all ranks' or as the mean; or that of all but these.
// They may differ from element to element, as they do where each rank has its own shard.
static bool is_one_rank(struct row *row)
{
    const struct check_case *c = row->trial->c;
    uint64_t every = ~0ull, masks[RANK_MASK_MAX];
    double all = case_mean_count(c, row->step);
    memset(row->fits, 0, row->count);
    for (int i = 0, count = c->world > 1 ? row_rank_masks(row, masks) : 0; i < count; i++)
        for (int kind = 0; kind < 3; kind++) {
            guess_sum(row, row->step, kind < 2 ? masks[i] : every & ~masks[i], every,
                      kind == 1 ? 1.0 / (mask_size(masks[i]) * c->accumulation) : 1 / all);
            if (row_guessed(row))
                return true;
            note(row);
        }
    return c->world > 1 && noted_all(row);
}

// True if one micro-step was used, or all but one; or if one, or all but one, did not leave its rank or group.
static bool is_one_micro_step(struct row *row)
{
    const struct check_case *c = row->trial->c;
    uint64_t every = ~0ull, masks[RANK_MASK_MAX];
    double all = case_mean_count(c, row->step);
    for (int micro = 0; micro < c->accumulation && c->accumulation > 1; micro++)
        for (int kind = 0; kind < 3; kind++) {
            guess_sum(row, row->step, every, kind < 2 ? 1ull << micro : every & ~(1ull << micro),
                      kind == 1 ? 1.0 / c->world : 1 / all);
            if (row_guessed(row))
                return true;
        }
    for (int inside = 0; inside < 2; inside++) {
        memset(row->fits, 0, row->count);
        for (int micro = 0; micro < c->accumulation && c->accumulation > 1; micro++)
            for (int i = 0, count = row_rank_masks(row, masks); i < count; i++) {
                uint64_t within = inside ? every & ~(1ull << micro) : 1ull << micro;
                guess_sum(row, row->step, every, ~within, 1 / all);
                add_sum(row, row->step, masks[i], within, 1 / all);
                note(row);
            }
        if (c->accumulation > 1 && noted_all(row))
            return true;
    }
    return false;
}

// True if an earlier step's gradient is added by shard: all ranks' in the rank's own shard, the rank's own elsewhere.
static bool is_left_over_by_shard(struct row *row, int step)
{
    const struct check_case *c = row->trial->c;
    double all = case_mean_count(c, step);
    memset(row->fits, 0, row->count);
    for (int rank = 0; rank < c->world; rank++)
        for (int kind = 0; kind < 2; kind++) {
            guess_sum(row, step, kind == 0 ? 1ull << rank : ~0ull, ~0ull, kind == 0 ? 1 / all : 2 / all);
            if (kind == 1)
                add_sum(row, step, 1ull << rank, ~0ull, -1 / all);
            for (size_t at = 0; at < row->count; at++)
                row->guess[at] += row->expected[at];
            note(row);
        }
    return noted_all(row);
}

// The multiple of an earlier gradient that is nearest to the used one minus the expected one.
static double left_over_factor(const struct row *row)
{
    double products = 0, squares = 0;
    for (size_t at = 0; at < row->count; at++)
        if (row->wrong_moment[at]) {
            products += (row->used[at] - row->expected[at]) * row->guess[at];
            squares += row->guess[at] * row->guess[at];
        }
    return products / squares;
}

// True if the used gradient minus the expected one is the same multiple of an earlier one everywhere.
static bool is_left_over(const struct row *row)
{
    double factor = left_over_factor(row);
    size_t telling = 0;
    for (size_t at = 0; at < row->count; at++) {
        double more = row->used[at] - row->expected[at];
        if (!row->wrong_moment[at])
            continue;
        double error = fabs(more - factor * row->guess[at]);
        double limit = 1e-3 * fabs(more) + 1e-5 * fabs(row->expected[at]) + slack(row, at);
        if (row->guess[at] == 0.0 || !(error <= limit))
            return false;
        telling += fabs(more) > 4 * limit;
    }
    return isfinite(factor) && fabs(factor) > 1e-3 && telling * 2 > row->wrong_moment_count;
}

static enum hint guess_earlier_steps(struct row *row)
{
    const struct check_case *c = row->trial->c;
    for (int step = row->step - 1; step >= 1 && step >= row->step - 3; step--) {
        guess_sum(row, step, ~0ull, ~0ull, 1 / case_mean_count(c, step));
        if (row_guessed(row))
            return HINT_STALE_GRADIENT;
        if (is_left_over(row) || is_left_over_by_shard(row, step))
            return HINT_LEFT_OVER;
    }
    return HINT_NONE;
}

// True if row->guess times one factor, such as a clip coefficient, was used in all elements of a tensor.
static bool is_multiple(const struct row *row, int param)
{
    double products = 0, squares = 0;
    size_t begin = row->begin[param], end = row->begin[param + 1], wrong = 0;
    for (size_t at = begin; at < end; at++) {
        products += row->used[at] * row->guess[at];
        squares += row->guess[at] * row->guess[at];
        wrong += row->wrong_moment[at];
    }
    double factor = products / squares;
    for (size_t at = begin; at < end; at++)
        if (!is_near(row, at, factor * row->guess[at], row->used[at]))
            return false;
    return wrong >= ROW_TELLING_COUNT && factor > 0;
}

// True if a tensor that the step does not use gets what it had in an earlier step, which nothing has cleared.
static bool is_left_in_unused(struct row *row)
{
    const struct check_case *c = row->trial->c;
    for (int param = 0; param < c->param_count; param++) {
        bool rests = trial_compares(row->trial, param) && !case_has_gradient_in(c, param, row->step);
        for (int step = row->step - 1; rests && step >= 1; step--) {
            guess_sum(row, step, ~0ull, ~0ull, 1 / case_mean_count(c, step));
            if (is_multiple(row, param))
                return true;
        }
    }
    return false;
}

enum hint diagnose_gradient(struct row *row)
{
    if (is_left_in_unused(row))
        return HINT_LEFT_OVER;
    enum hint of_tokens = diagnose_tokens(row);
    if (of_tokens != HINT_NONE)
        return of_tokens;
    enum hint of_factor = diagnose_factor(row);
    if (of_factor != HINT_NONE && of_factor != HINT_FACTOR_OTHER)
        return of_factor;
    // The right sum with other roundings: a dtype problem.
    guess_sum(row, row->step, ~0ull, ~0ull, 1 / case_mean_count(row->trial->c, row->step));
    if (row_guessed(row))
        return HINT_GRADIENT;
    if (diagnose_use(row))
        return HINT_ONE_USE;
    if (is_one_rank(row))
        return HINT_ONE_RANK;
    if (is_one_micro_step(row))
        return HINT_ONE_MICRO_STEP;
    enum hint earlier = guess_earlier_steps(row);
    if (earlier != HINT_NONE)
        return earlier;
    if (of_factor != HINT_NONE)
        return of_factor;
    if (diagnose_weights(row))
        return HINT_WEIGHTS;
    return diagnose_moved(row) ? HINT_SHIFTED : HINT_NONE;
}

bool diagnose_rounded_gradient(const struct row *row)
{
    size_t telling = 0;
    for (size_t at = 0; at < row->count; at++) {
        double right = row->expected[at], limit = 0x1p-14 * fabs(right), clip = (double)row->coefficient;
        double rounded = clip * (double)unsharded_round(row->trial->c->precision, (float)(right / clip));
        if (row->wrong_moment[at] && fabs(row->used[at] - rounded) > limit)
            return false;
        telling += row->wrong_moment[at] && fabs(right - rounded) > 2 * limit;
    }
    return telling * 2 > row->wrong_moment_count;
}

enum hint diagnose_used_gradient(struct row *row)
{
    enum hint hint = diagnose_gradient(row);
    if (hint == HINT_NONE && diagnose_unclip(row))
        hint = row->wrong_count == 0 ? HINT_CLIP : diagnose_gradient(row);
    row_allow_short(row);
    return hint == HINT_NONE && row->is_short ? diagnose_gradient(row) : hint;
}
