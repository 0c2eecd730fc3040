// SPDX-License-Identifier: Apache-2.0
// The list of cases: it serves every requirement, its names are names, its cases are what CONTRACT.md allows, and
// twins are twins.
#include "conformance/cases/case_mesh.h"
#include "conformance/suite/suite.h"
#include "conformance/suite/suite_pairs.h"
#include "base/err.h"
#include "conformance/spec/requirement.h"
#include "conformance/unsharded/unsharded.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// All cases of a level, kept.
struct list {
    struct check_case *cases;
    size_t count, room;
};

static int keep(void *context, const struct check_case *c)
{
    struct list *list = context;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 1024;
        list->cases = realloc(list->cases, list->room * sizeof *list->cases);
        cr_assert_not_null(list->cases);
    }
    list->cases[list->count++] = *c;
    return ERR_NONE;
}

static struct list list_of(enum suite_level level)
{
    struct list list = {0};
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = level}, keep, &list), ERR_NONE, "%s", err_message());
    return list;
}

// Those that only some stages can have: offload needs a stage that cuts the optimizer, NVMe stage 3.
static bool is_for_all_stages(const struct requirement *requirement)
{
    return requirement->options == 0 && strncmp(requirement->id, "R-OFF-", 6) != 0 &&
           strncmp(requirement->id, "R-NVME-", 7) != 0 && strcmp(requirement->id, "R-CKPT-06") != 0;
}

Test(suite, every_requirement_has_cases_in_quick_and_at_every_stage)
{
    struct list list = list_of(LEVEL_QUICK);
    const struct requirement *requirement;
    int checked = 0;
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        int stages[4] = {0}, count = 0;
        for (size_t k = 0; k < list.count; k++)
            if (requirement_covers(requirement, list.cases[k].name)) {
                stages[list.cases[k].stage]++;
                count++;
            }
        cr_expect_gt(count, 0, "%s has no case", requirement->id);
        for (int stage = 0; stage < 4 && is_for_all_stages(requirement); stage++)
            cr_expect_gt(stages[stage], 0, "%s has no case at stage %d", requirement->id, stage);
        checked++;
    }
    cr_assert_gt(checked, 70);
    free(list.cases);
}

Test(suite, every_pattern_of_a_check_has_cases_in_quick)
{
    struct list list = list_of(LEVEL_QUICK);
    const struct requirement *requirement;
    for (int i = 0; (requirement = requirement_at(i)); i++)
        for (int p = 0; p < requirement->pattern_count; p++) {
            struct requirement one = *requirement;
            memcpy(one.patterns[0], requirement->patterns[p], CASE_NAME_BYTES);
            one.pattern_count = 1;
            size_t count = 0;
            for (size_t k = 0; k < list.count; k++)
                count += requirement_covers(&one, list.cases[k].name);
            cr_expect_gt(count, 0, "%s: `%s` has no case", requirement->id, one.patterns[0]);
        }
    free(list.cases);
}

Test(suite, what_is_compared_with_its_like_has_its_like)
{
    struct list list = list_of(LEVEL_QUICK);
    const struct requirement *requirement;
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        if (!(requirement->aspects & 1u << ASPECT_SAME))
            continue;
        bool pair = false;
        for (size_t a = 0; a < list.count && !pair; a++)
            for (size_t b = a + 1; b < list.count && !pair; b++)
                pair = list.cases[a].twin[0] && strcmp(list.cases[a].twin, list.cases[b].twin) == 0 &&
                       requirement_covers(requirement, list.cases[a].name);
        cr_expect(pair, "%s has no twins", requirement->id);
    }
    free(list.cases);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct check_case *)a)->name, ((const struct check_case *)b)->name);
}

Test(suite, cases_have_names_of_their_own_and_are_read_as_they_were_written)
{
    struct list list = list_of(LEVEL_FULL);
    static struct check_case again, plain;
    for (size_t i = 0; i < list.count; i++) {
        char *text;
        size_t bytes;
        cr_assert_eq(case_text(&list.cases[i], &text, &bytes), ERR_NONE);
        cr_assert_eq(case_parse(list.cases[i].name, text, bytes, &again), ERR_NONE, "%s", err_message());
        free(text);
        plain = list.cases[i];
        char *back;
        cr_assert_eq(case_text(&again, &back, &bytes), ERR_NONE);
        cr_assert_eq(case_text(&plain, &text, &bytes), ERR_NONE);
        cr_assert_str_eq(back, text);
        free(back);
        free(text);
    }
    qsort(list.cases, list.count, sizeof *list.cases, compare_names);
    for (size_t i = 1; i < list.count; i++)
        cr_assert_str_neq(list.cases[i - 1].name, list.cases[i].name);
    free(list.cases);
}

// As their data ranks see them, whose gradients the numbers of a case are.
static struct list logical_list_of(enum suite_level level)
{
    struct list list = list_of(level);
    static struct check_case logical;
    for (size_t i = 0; i < list.count; i++) {
        case_logical(&list.cases[i], &logical);
        list.cases[i] = logical;
    }
    return list;
}

static float rounded(enum dtype dtype, float x)
{
    unsigned char narrow[4];
    float wide;
    dtype_narrow(dtype, &x, narrow, 1);
    dtype_widen(dtype, narrow, &wide, 1);
    return wide;
}

Test(suite, every_number_is_one_of_the_precision)
{
    struct list list = logical_list_of(LEVEL_QUICK);
    for (size_t k = 0; k < list.count; k++) {
        const struct check_case *c = &list.cases[k];
        struct case_values *values;
        cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
        for (int i = 0; i < c->param_count; i++) {
            const float *initial = case_initial(values, i);
            for (size_t e = 0; initial && e < c->params[i].count; e++)
                cr_assert_eq(rounded(c->precision, initial[e]), initial[e], "%s", c->name);
            const float *gradient = case_gradient(values, c->steps, c->accumulation - 1, c->world - 1, i);
            for (size_t e = 0; gradient && e < c->params[i].count; e++)
                cr_assert(isnan(gradient[e]) || rounded(c->precision, gradient[e]) == gradient[e], "%s", c->name);
        }
        case_values_close(values);
    }
    free(list.cases);
}

// Twins of the same world have the same gradients, all have the same parameters and hyper-parameters.
static void expect_twins(const struct check_case *a, const struct check_case *b)
{
    struct case_values *first, *second;
    cr_assert_eq(a->steps, b->steps, "%s, %s", a->name, b->name);
    cr_assert_eq(a->param_count, b->param_count, "%s, %s", a->name, b->name);
    cr_assert_eq(a->precision, b->precision, "%s, %s", a->name, b->name);
    cr_assert_eq(memcmp(a->groups, b->groups, sizeof a->groups), 0, "%s, %s", a->name, b->name);
    cr_assert_eq(case_values_open(a, &first), ERR_NONE);
    cr_assert_eq(case_values_open(b, &second), ERR_NONE);
    for (int i = 0; i < a->param_count; i++) {
        size_t bytes = a->params[i].count * sizeof(float);
        cr_assert_eq(a->params[i].count, b->params[i].count);
        if (case_initial(first, i))
            cr_assert_eq(memcmp(case_initial(first, i), case_initial(second, i), bytes), 0, "%s, %s", a->name, b->name);
        // One mean, or the same tokens, in more or fewer micro-steps are twins, too.
        if (a->world != b->world || (a->data.same_mean && a->accumulation != b->accumulation))
            continue;
        cr_assert_eq(a->accumulation, b->accumulation, "%s, %s", a->name, b->name);
        const float *one = case_gradient(first, a->steps, a->accumulation - 1, a->world - 1, i);
        const float *other = case_gradient(second, a->steps, a->accumulation - 1, a->world - 1, i);
        cr_assert_eq(one == NULL, other == NULL);
        if (one)
            cr_assert_eq(memcmp(one, other, bytes), 0, "%s, %s", a->name, b->name);
    }
    cr_assert(a->world == b->world || (a->data.same_mean && b->data.same_mean), "%s, %s", a->name, b->name);
    case_values_close(first);
    case_values_close(second);
}

Test(suite, twins_are_given_the_same)
{
    struct list list = logical_list_of(LEVEL_FULL);
    size_t pairs = 0;
    for (size_t b = 0; b < list.count; b++)
        for (size_t a = b; a-- > 0 && list.cases[b].twin[0];)
            if (strcmp(list.cases[a].twin, list.cases[b].twin) == 0) {
                cr_assert(list.cases[a].exact);
                expect_twins(&list.cases[a], &list.cases[b]);
                pairs++;
                break;
            }
    cr_assert_gt(pairs, 1000);
    free(list.cases);
}

Test(suite, no_case_overflows_at_the_smallest_loss_scale_by_the_rule_that_ends_the_run_there)
{
    struct list list = logical_list_of(LEVEL_FULL);
    size_t overflows = 0;
    for (size_t k = 0; k < list.count; k++) {
        const struct check_case *c = &list.cases[k];
        struct unsharded_decision decisions[CASE_STEP_MAX];
        struct case_values *values;
        if (c->loss_scale.kind != SCALE_DYNAMIC || c->expects_refusal)
            continue;
        cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
        cr_assert_eq(unsharded_decide(c, values, SCALER_DEEPSPEED, decisions), ERR_NONE, "%s", err_message());
        case_values_close(values);
        for (int i = 0; i < case_last_step(c); i++) {
            overflows += decisions[i].skipped;
            cr_assert(!decisions[i].skipped || decisions[i].scale > c->loss_scale.min_scale, "%s, step %d", c->name,
                      i + 1);
        }
    }
    cr_assert_gt(overflows, 100);
    free(list.cases);
}

static int count_one(void *context, const struct check_case *c)
{
    (void)c;
    ++*(int *)context;
    return ERR_NONE;
}

Test(suite, counts_are_those_of_the_cases)
{
    for (int version = 1; version <= ZG_SUITE_VERSION; version++)
        for (int level = LEVEL_QUICK; level <= LEVEL_FULL; level++) {
            const struct suite_choice choice = {.level = (enum suite_level)level, .version = version};
            int count = 0;
            cr_assert_eq(suite_cases(&choice, count_one, &count), ERR_NONE, "%s", err_message());
            cr_expect_eq(suite_case_count(choice.level, version), count, "version %d, level %d: %d", version, level,
                         count);
        }
}

static int stop_at_third(void *context, const struct check_case *c)
{
    (void)c;
    return ++*(int *)context == 3 ? ERR_CHECK : ERR_NONE;
}

Test(suite, a_visitor_that_fails_ends_the_list)
{
    int count = 0;
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_QUICK}, stop_at_third, &count), ERR_CHECK);
    cr_assert_eq(count, 3);
}

Test(suite, full_has_all_of_quick_in_its_order_and_more)
{
    struct list quick = list_of(LEVEL_QUICK), full = list_of(LEVEL_FULL);
    size_t found = 0;
    for (size_t i = 0; i < full.count && found < quick.count; i++)
        found += strcmp(full.cases[i].name, quick.cases[found].name) == 0;
    cr_assert_eq(found, quick.count, "%s is not in full", found < quick.count ? quick.cases[found].name : "");
    cr_assert_gt(full.count, 2 * quick.count);
    free(quick.cases);
    free(full.cases);
}

Test(suite, an_array_is_its_choices_whatever_was_made_before)
{
    const struct suite_choice plain = {.level = LEVEL_QUICK}, drawn = {.level = LEVEL_QUICK, .seed = 3},
                              second = {.level = LEVEL_QUICK, .version = 2};
    struct suite_pairs first, other, short_one, again;
    cr_assert_eq(suite_pairs_open(&plain, &first), ERR_NONE, "%s", err_message());
    cr_assert_eq(suite_pairs_open(&drawn, &other), ERR_NONE, "%s", err_message());
    cr_assert_eq(suite_pairs_open(&second, &short_one), ERR_NONE, "%s", err_message());
    cr_assert_eq(suite_pairs_open(&plain, &again), ERR_NONE, "%s", err_message());
    size_t row_bytes = sizeof *first.array.rows;
    cr_assert_eq(first.array.count, again.array.count);
    cr_assert_eq(first.pair_count, again.pair_count);
    cr_assert_eq(memcmp(first.array.rows, again.array.rows, first.array.count * row_bytes), 0);
    cr_assert_neq(memcmp(first.array.rows, other.array.rows, row_bytes), 0);
    cr_assert_eq(short_one.array.count, first.pair_count);
    cr_assert_eq(memcmp(first.array.rows, short_one.array.rows, first.pair_count * row_bytes), 0);
    suite_pairs_close(&first);
    suite_pairs_close(&other);
    suite_pairs_close(&short_one);
    suite_pairs_close(&again);
}
