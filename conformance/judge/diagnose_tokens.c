// SPDX-License-Identifier: Apache-2.0
// Finds what a gradient was divided by in place of all tokens of its step.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <string.h>

// Whose tokens a rank divides a micro-step's gradient by.
enum share { OF_RANK, OF_MICRO_STEP, OF_RANK_AND_LAST, OF_RANK_AND_MICRO_STEP, SHARE_COUNT };
static const enum hint hints_of_shares[SHARE_COUNT] = {HINT_TOKENS_OWN_RANK, HINT_TOKENS_MICRO_STEP,
                                                       HINT_TOKENS_MICRO_STEP, HINT_TOKENS_MEANS};

static bool belongs(enum share share, int micro, int rank, int of_micro, int of_rank, int last)
{
    bool same_rank = rank == of_rank || share == OF_MICRO_STEP;
    int wanted = share == OF_RANK_AND_LAST ? last : of_micro;
    return same_rank && (share == OF_RANK || micro == wanted);
}

static double share_of(const struct row *row, enum share share, int of_micro, int of_rank)
{
    const struct check_case *c = row->trial->c;
    double sum = 0;
    int count = case_micro_steps(c, row->step);
    for (int micro = 0; micro < count; micro++)
        for (int rank = 0; rank < c->world; rank++)
            if (belongs(share, micro, rank, of_micro, of_rank, count - 1))
                sum += (double)case_tokens(c, row->step, micro, rank);
    return sum;
}

// Sets row->guess to the sum of gradients, each divided by a share of the tokens. False: all shares are equal, or one
// that has a gradient is zero.
static bool guess_share(struct row *row, enum share share)
{
    const struct check_case *c = row->trial->c;
    double least = INFINITY, most = 0;
    memset(row->guess, 0, row->count * sizeof *row->guess);
    for (int micro = 0; micro < case_micro_steps(c, row->step); micro++)
        for (int rank = 0; rank < c->world; rank++) {
            double tokens = share_of(row, share, micro, rank);
            if (case_tokens(c, row->step, micro, rank) == 0)
                continue;
            least = fmin(least, tokens);
            most = fmax(most, tokens);
            row_add(row, &(struct addends){row->step, 1ull << rank, 1ull << micro, 1 / fmax(tokens, 1)});
        }
    return least > 0 && least < most;
}

// True if row->guess times some factor was used in every element whose m is wrong.
static bool is_multiple(struct row *row)
{
    double products = 0, squares = 0;
    for (size_t at = 0; at < row->count; at++)
        if (row->wrong_moment[at]) {
            products += row->used[at] * row->guess[at];
            squares += row->guess[at] * row->guess[at];
        }
    for (size_t at = 0; at < row->count; at++)
        row->guess[at] *= products / squares;
    return squares > 0 && row_guessed(row);
}

// True if the sum was divided by this number.
static bool is_divided_by(struct row *row, double count)
{
    double all = case_mean_count(row->trial->c, row->step);
    for (size_t at = 0; at < row->count; at++)
        row->guess[at] = row->expected[at] * all / count;
    return count > 0 && count != all && row_guessed(row);
}

// True if all batches count as many tokens as the longest of their micro-step, of their rank, or of all.
static bool is_padded(struct row *row)
{
    const struct check_case *c = row->trial->c;
    double most = 0, by_micro_step = 0, by_rank = 0;
    for (int micro = 0; micro < case_micro_steps(c, row->step); micro++) {
        double longest = 0;
        for (int rank = 0; rank < c->world; rank++)
            longest = fmax(longest, (double)case_tokens(c, row->step, micro, rank));
        by_micro_step += longest * c->world;
        most = fmax(most, longest);
    }
    for (int rank = 0; rank < c->world; rank++) {
        double longest = 0;
        for (int micro = 0; micro < case_micro_steps(c, row->step); micro++)
            longest = fmax(longest, (double)case_tokens(c, row->step, micro, rank));
        by_rank += longest * c->accumulation;
    }
    return is_divided_by(row, by_micro_step) || is_divided_by(row, by_rank) ||
           is_divided_by(row, most * c->world * c->accumulation);
}

// True if of the ranks that share a micro-batch those with one number have counted for all.
static bool is_one_part(struct row *row)
{
    const struct check_case *c = row->trial->answer->c;
    for (int part = 0; c->sequence > 1 && part < c->sequence; part++) {
        double sum = 0;
        for (int micro = 0; micro < case_micro_steps(c, row->step); micro++)
            for (int rank = 0; rank < c->world; rank++)
                if (case_sequence_rank(c, rank) == part)
                    sum += (double)case_rank_tokens(c, row->step, micro, rank);
        if (is_divided_by(row, sum))
            return true;
    }
    return false;
}

// True if the right gradient was used, but for roundings.
static bool is_right(const struct row *row)
{
    for (size_t at = 0; at < row->count; at++)
        if (!value_near(row->used[at], row->expected[at]))
            return false;
    return true;
}

enum hint diagnose_tokens(struct row *row)
{
    const struct check_case *c = row->trial->c;
    const struct mesh mesh = case_mesh(row->trial->answer->c);
    if (!c->has_tokens)
        return HINT_NONE;
    double all = case_mean_count(c, row->step);
    if (all > 0x1p24 && is_right(row))
        return HINT_TOKENS_ROUNDED;
    if (is_divided_by(row, all * mesh.tensor * mesh.pipeline))
        return HINT_TOKENS_COPIES;
    if (is_one_part(row))
        return HINT_TOKENS_OWN_RANK;
    if (is_divided_by(row, all * c->accumulation) || is_divided_by(row, all / c->accumulation))
        return HINT_FACTOR_ACCUMULATION;
    if (row->step > 1 && is_divided_by(row, case_mean_count(c, row->step - 1)))
        return HINT_TOKENS_BEFORE;
    for (int micro = 0; micro < case_micro_steps(c, row->step); micro++)
        if (is_divided_by(row, share_of(row, OF_MICRO_STEP, micro, 0)))
            return HINT_TOKENS_MICRO_STEP;
    for (int share = 0; share < SHARE_COUNT; share++)
        if (guess_share(row, (enum share)share) && is_multiple(row))
            return hints_of_shares[share];
    return is_padded(row) ? HINT_TOKENS_PADDING : HINT_NONE;
}
