// SPDX-License-Identifier: Apache-2.0
// Features by requirement, without a hole: a program that claims one feature is asked about it alone, and what joins
// two by its meaning is named here.
#include "conformance/run/check_features.h"
#include "base/err.h"
#include "conformance/run/check_test.h"
#include "conformance/claims/claims.h"

static struct feature_row rows[REQUIREMENT_MAX];

static int rows_of(int version)
{
    int count;
    cr_assert_eq(check_features(&(struct suite_choice){.version = version}, rows, &count), ERR_NONE, "%s",
                 err_message());
    return count;
}

static const struct feature_row *row_of(const char *id, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].requirement->id, id) == 0)
            return &rows[i];
    cr_assert_fail("%s has no row", id);
    return NULL;
}

static bool is_asked_alone(int count, uint32_t feature)
{
    for (int i = 0; i < count; i++)
        if (rows[i].common == feature || (rows[i].common == 0 && rows[i].alone & feature))
            return true;
    return false;
}

Test(check_features, every_feature_is_asked_for_alone_by_some_requirement)
{
    int count = rows_of(3);
    cr_assert_gt(count, 70);
    for (int i = 0; i < FEATURE_COUNT; i++)
        cr_expect(is_asked_alone(count, 1u << i), "%s", claims_feature_name((enum claims_feature)i));
    // Version 2 had tensors without elements in no case without scalars.
    count = rows_of(2);
    cr_assert_not(is_asked_alone(count, 1u << FEATURE_EMPTY));
    cr_assert_not(is_asked_alone(count, 1u << FEATURE_SCALAR));
}

Test(check_features, a_requirement_needs_one_feature_at_most_unless_it_is_about_two)
{
    static const char *const about_two[] = {"R-CLIP-07", "R-OFF-05", "R-CONF-02", "R-CONF-03"};
    int count = rows_of(3);
    for (int i = 0; i < count; i++) {
        bool two = false;
        for (size_t k = 0; k < sizeof about_two / sizeof *about_two; k++)
            two |= strcmp(rows[i].requirement->id, about_two[k]) == 0;
        cr_expect_eq(__builtin_popcount(rows[i].common) > 1, two, "%s", rows[i].requirement->id);
    }
    count = rows_of(2);
    cr_assert_eq(row_of("R-PART-02", count)->common, 1u << FEATURE_EMPTY | 1u << FEATURE_SCALAR);
    cr_assert_eq(row_of("R-CKPT-08", count)->common, 1u << FEATURE_TIED | 1u << FEATURE_FROZEN);
}

Test(check_features, no_feature_comes_only_with_several_others)
{
    int count = rows_of(3);
    for (int i = 0; i < count; i++)
        cr_expect_eq(rows[i].crowded, 0, "%s: %#x", rows[i].requirement->id, rows[i].crowded);
    cr_assert(row_of("R-MP-11", rows_of(2))->crowded >> FEATURE_CLIPPING & 1);
}

Test(check_features, a_list_shows_them)
{
    cr_assert_eq(check("--list"), 0, "%s", output);
    has("\nR-PART-02  -; empty scalar\n");
    has("\nR-CLIP-01  clipping; groups tied\n");
    cr_assert_eq(check("--list --suite-version 2"), 0);
    has("\nR-PART-02  empty scalar;\n");
}
