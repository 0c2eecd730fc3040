// SPDX-License-Identifier: Apache-2.0
// The covering array, checked by enumeration that shares nothing with its generator: all vectors that are legal have
// their pairs in some row.
#include "base/err.h"
#include "conformance/suite/covering.h"

#include <criterion/criterion.h>
#include <string.h>

static bool row_has(const struct factor_vector *row, int a, int av, int b, int bv)
{
    return row->values[a] == av && row->values[b] == bv;
}

Test(covering, every_pair_of_a_legal_vector_is_in_a_row)
{
    struct covering covering = {0};
    struct factor_space whole = factor_space_whole();
    cr_assert_eq(covering_extend(&covering, &whole, COVERING_PAIRS, 1), ERR_NONE, "%s", err_message());
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct factor_vector v;
        factor_draw(&v, seed);
        for (int a = 0; a < FACTOR_COUNT; a++)
            for (int b = a + 1; b < FACTOR_COUNT; b++) {
                bool found = false;
                for (size_t i = 0; i < covering.count && !found; i++)
                    found = row_has(&covering.rows[i], a, v.values[a], b, v.values[b]);
                cr_assert(found, "%s and %s", factor_name((enum factor)a), factor_name((enum factor)b));
            }
    }
    for (size_t i = 0; i < covering.count; i++)
        cr_assert(factor_is_legal(&covering.rows[i]));
    cr_assert_lt(covering.count, 60);
    covering_free(&covering);
}

Test(covering, a_row_less_is_counted_and_named)
{
    struct covering covering = {0};
    struct factor_space whole = factor_space_whole();
    struct coverage coverage;
    cr_assert_eq(covering_extend(&covering, &whole, COVERING_TRIPLES, 1), ERR_NONE, "%s", err_message());
    cr_assert_eq(covering_count(&covering, &whole, COVERING_TRIPLES, &coverage), ERR_NONE);
    cr_assert_eq(coverage.pairs_covered, coverage.pairs);
    cr_assert_eq(coverage.triples_covered, coverage.triples);
    cr_assert_str_eq(coverage.missing, "");
    // The last row was added for what no other has.
    covering.count--;
    cr_assert_eq(covering_count(&covering, &whole, COVERING_TRIPLES, &coverage), ERR_NONE);
    cr_assert_lt(coverage.pairs_covered + coverage.triples_covered, coverage.pairs + coverage.triples);
    cr_assert_not_null(strstr(coverage.missing, " and "), "%s", coverage.missing);
    covering_free(&covering);
}

Test(covering, a_space_without_a_value_has_no_row_with_it_and_all_else)
{
    struct covering covering = {0};
    struct factor_space space = factor_space_whole();
    struct coverage coverage;
    space.values[FACTOR_STAGE] = 1 << 2;
    space.values[FACTOR_WORLD] = 1 << 1 | 1 << 3;
    space.values[FACTOR_DELAYED] = 1;
    cr_assert_eq(covering_extend(&covering, &space, COVERING_PAIRS, 1), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < covering.count; i++) {
        cr_assert_eq(covering.rows[i].values[FACTOR_STAGE], 2);
        cr_assert(covering.rows[i].values[FACTOR_WORLD] & 1);
        cr_assert_eq(covering.rows[i].values[FACTOR_DELAYED], 0);
        cr_assert_eq(covering.rows[i].values[FACTOR_PARAM_TIER], 0, "stage 2 does not partition parameters");
    }
    cr_assert_eq(covering_count(&covering, &space, COVERING_TRIPLES, &coverage), ERR_NONE);
    cr_assert_eq(coverage.pairs_covered, coverage.pairs);
    cr_assert_gt(coverage.pairs, 500);
    covering_free(&covering);
}

Test(covering, a_factor_that_is_left_out_is_plain_and_comes_in_further_rows)
{
    struct covering covering = {0};
    struct factor_space whole = factor_space_whole(), without = whole;
    struct coverage coverage;
    without.values[FACTOR_VARYING] = 0;
    cr_assert_eq(covering_extend(&covering, &without, COVERING_PAIRS, 1), ERR_NONE, "%s", err_message());
    cr_assert_eq(covering_count(&covering, &without, COVERING_TRIPLES, &coverage), ERR_NONE);
    cr_assert_eq(coverage.pairs_covered, coverage.pairs);
    size_t first = covering.count, pairs = coverage.pairs;
    cr_assert_eq(covering_extend(&covering, &whole, COVERING_PAIRS, 1), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < covering.count; i++)
        cr_assert_eq(covering.rows[i].values[FACTOR_VARYING] != 0, i >= first, "row %zu", i);
    cr_assert_gt(covering.count, first);
    cr_assert_eq(covering_count(&covering, &whole, COVERING_TRIPLES, &coverage), ERR_NONE);
    cr_assert_eq(coverage.pairs_covered, coverage.pairs, "%s", coverage.missing);
    cr_assert_gt(coverage.pairs, pairs);
    covering_free(&covering);
}

Test(covering, a_seed_makes_one_array_and_another_seed_another)
{
    struct covering first = {0}, again = {0}, other = {0};
    struct factor_space whole = factor_space_whole();
    cr_assert_eq(covering_extend(&first, &whole, COVERING_PAIRS, 1), ERR_NONE);
    cr_assert_eq(covering_extend(&again, &whole, COVERING_PAIRS, 1), ERR_NONE);
    cr_assert_eq(covering_extend(&other, &whole, COVERING_PAIRS, 2), ERR_NONE);
    cr_assert_eq(first.count, again.count);
    cr_assert_eq(memcmp(first.rows, again.rows, first.count * sizeof *first.rows), 0);
    cr_assert_neq(memcmp(first.rows, other.rows, sizeof *first.rows), 0);
    covering_free(&first);
    covering_free(&again);
    covering_free(&other);
}
