// SPDX-License-Identifier: Apache-2.0
// The shrinker against made-up judges: each fails a case for a known reason, and nothing but that reason must remain.
#include "conformance/hunt/shrink.h"
#include "base/err.h"
#include "conformance/hunt/hunt_mesh.h"

#include <criterion/criterion.h>
#include <math.h>

typedef bool reason(const struct hunt_case *h);

static struct hunt_case drawn;  // that a test draws or shrinks

static void teardown(void)
{
    hunt_case_close(&drawn);
}

TestSuite(shrink, .fini = teardown);

struct made_up {
    reason *fails;
    int calls, call_limit;  // 0: none
};

static int ask(void *context, const struct hunt_case candidates[], int count, bool fails[])
{
    struct made_up *judge = context;
    if (judge->call_limit && ++judge->calls > judge->call_limit)
        return err_set(ERR_USAGE, "the judge is tired");
    for (int i = 0; i < count; i++) {
        bool legal;
        cr_assert_eq(hunt_case_is_legal(&candidates[i], &legal), ERR_NONE);
        cr_assert(legal, "a candidate is not legal");
        fails[i] = judge->fails(&candidates[i]);
    }
    return ERR_NONE;
}

static void draw(uint64_t number)
{
    struct check_case parts[2];
    int count = hunt_draw(1, number, 0, parts);
    hunt_case_close(&drawn);
    cr_assert_eq(hunt_case_open(&parts[0], count == 2 ? &parts[1] : NULL, &drawn), ERR_NONE, "%s", err_message());
}

// The first drawn case that fails.
static void draw_failing(reason *fails)
{
    for (uint64_t number = 0; number < 1000; number++) {
        draw(number);
        if (fails(&drawn))
            return;
    }
    cr_assert_fail("no case of 1000 fails");
}

static struct shrink_result shrink_for(reason *fails)
{
    struct made_up judge = {.fails = fails};
    struct shrink_setting setting = {.judge = ask, .context = &judge};
    struct shrink_result result;
    draw_failing(fails);
    cr_assert_eq(shrink(&setting, &drawn, &result), ERR_NONE, "%s", err_message());
    cr_assert(result.complete);
    cr_assert(fails(&drawn));
    return result;
}

static bool always(const struct hunt_case *h)
{
    return h->part_count >= 1;
}

Test(shrink, a_program_that_always_fails_leaves_one_number)
{
    shrink_for(always);
    const struct check_case *c = drawn.parts[0];
    cr_assert_eq(c->steps, 1);
    cr_assert_eq(c->world, 1);
    cr_assert_eq(c->accumulation, 1);
    cr_assert_eq(c->param_count, 1);
    cr_assert_eq(c->params[0].count, 1);
    cr_assert_eq(c->group_count, 1);
    cr_assert_eq(c->stage, 0);
    cr_assert_eq(c->precision, DTYPE_FP32);
    cr_assert_eq(c->groups[0].weight_decay, 0);
    cr_assert_not(c->groups[0].lr_by_step);
    cr_assert_eq(c->phase, PHASE_WHOLE);
    cr_assert_str_eq(c->params[0].name, "t0");
    cr_assert_eq(case_initial(drawn.values[0], 0)[0], 0);
    cr_assert_eq(case_gradient(drawn.values[0], 1, 0, 0, 0)[0], 0);
}

static bool is_clipped_with_groups(const struct hunt_case *h)
{
    return h->parts[0]->gradient_clipping > 0 && h->parts[0]->group_count >= 2 && h->parts[0]->world >= 2 &&
           h->parts[0]->steps >= 3;
}

static bool has_tied_and_frozen(const struct hunt_case *h)
{
    bool tied = false, frozen = false;
    for (int i = 0; i < h->parts[0]->param_count; i++) {
        tied |= h->parts[0]->params[i].tied_to >= 0;
        frozen |= h->parts[0]->params[i].frozen;
    }
    return tied && frozen;
}

// A parameter that has a gradient in one step, and none in the next.
static bool rests_after_use(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    for (int i = 0; i < c->param_count; i++)
        for (int step = 2; step <= c->steps; step++)
            if (case_has_gradient_in(c, i, step - 1) && !case_has_gradient_in(c, i, step))
                return true;
    return false;
}

static bool uses_the_second_micro_step(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    for (int i = 0; i < c->param_count; i++)
        for (int step = 1; step <= c->steps; step++)
            for (int micro = 1; micro < c->accumulation; micro++)
                if (case_is_used_in(c, i, step, micro) && case_is_used(c, i) && !case_is_used_in(c, i, step, micro - 1))
                    return true;
    return false;
}

static bool is_always_without_a_gradient(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    for (int i = 0; i < c->param_count; i++)
        if (!c->params[i].frozen && c->params[i].tied_to < 0 && !case_has_gradient_in(c, i, 1))
            return true;
    return false;
}

static bool resumes_with_more_ranks(const struct hunt_case *h)
{
    return h->part_count == 2 && h->parts[1]->world > h->parts[0]->world;
}

// Some gradient of the case is NaN.
static bool has_nan(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int rank = 0; rank < c->world; rank++)
                for (int i = 0; i < c->param_count; i++) {
                    const float *gradient = case_gradient(h->values[0], step, micro, rank, i);
                    for (size_t k = 0; gradient && k < c->params[i].count; k++)
                        if (isnan(gradient[k]))
                            return true;
                }
    return false;
}

// As many steps more than ranks as the first case has that this is asked of.
static int more_steps = -1;
static bool keeps_its_steps_per_rank(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    if (more_steps < 0 && h->part_count == 1 && c->world > 1 && c->steps > c->world)
        more_steps = c->steps - c->world;
    return h->part_count == 1 && c->steps - c->world == more_steps;
}

static bool fills_two_buckets_and_grows(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    size_t count = 0;
    for (int i = 0; i < c->param_count; i++)
        count += case_is_trained(c, i) ? c->params[i].count : 0;
    return c->loss_scale.kind == SCALE_DYNAMIC && c->loss_scale.window <= (uint64_t)c->steps &&
           count > c->reduce_bucket && count > c->sub_group;
}

// As a count that every update of a tensor advances: it is wrong from the fourth update on.
static bool updates_four_times(const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    return h->part_count == 1 && c->steps * c->param_count >= 4;
}

// The sizes of the first drawn case that fails for a reason, once it is shrunk; 0: any number.
static const struct {
    reason *fails;
    int steps, world, accumulation, params;
    size_t elements;  // of the first parameter
} left[] = {
    {is_clipped_with_groups, 3, 2, 0, 2, 0},
    {has_tied_and_frozen, 0, 0, 0, 3, 0},
    {rests_after_use, 2, 1, 1, 0, 0},
    {uses_the_second_micro_step, 1, 0, 2, 1, 0},
    {is_always_without_a_gradient, 1, 0, 0, 0, 0},
    {resumes_with_more_ranks, 2, 1, 0, 1, 0},
    {has_nan, 1, 1, 0, 1, 1},
    {keeps_its_steps_per_rank, 0, 1, 0, 0, 0},
    {fills_two_buckets_and_grows, 1, 0, 0, 1, 3},
    {updates_four_times, 2, 0, 0, 2, 0},
};

Test(shrink, nothing_is_left_but_the_reason)
{
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        shrink_for(left[i].fails);
        const struct check_case *c = drawn.parts[0];
        cr_expect(left[i].steps == 0 || c->steps == left[i].steps, "%zu: %d steps", i, c->steps);
        cr_expect(left[i].world == 0 || c->world == left[i].world, "%zu: %d ranks", i, c->world);
        cr_expect(left[i].accumulation == 0 || c->accumulation == left[i].accumulation, "%zu: %d micro-steps", i,
                  c->accumulation);
        cr_expect(left[i].params == 0 || c->param_count == left[i].params, "%zu: %d parameters", i, c->param_count);
        cr_expect(left[i].elements == 0 || c->params[0].count == left[i].elements, "%zu: %zu elements", i,
                  c->params[0].count);
    }
}

Test(shrink, two_features_remain_where_only_both_fail)
{
    shrink_for(is_clipped_with_groups);
    cr_assert_eq(drawn.parts[0]->group_count, 2);
    cr_assert_eq(drawn.parts[0]->loss_scale.kind, SCALE_NONE);
    cr_assert_eq(drawn.parts[0]->offload_optimizer, TIER_DEVICE);
}

Test(shrink, a_parameter_that_rests_keeps_the_step_before)
{
    shrink_for(rests_after_use);
    cr_assert(case_has_gradient_in(drawn.parts[0], 0, 1) && !case_has_gradient_in(drawn.parts[0], 0, 2));
    shrink_for(uses_the_second_micro_step);
    cr_assert_eq(drawn.parts[0]->params[0].unused_in[0], 1, "next to a micro-step that uses it");
}

Test(shrink, a_parameter_that_no_step_uses_any_more_is_an_unused_one)
{
    shrink_for(is_always_without_a_gradient);
    int unused = 0;
    for (int i = 0; i < drawn.parts[0]->param_count; i++) {
        unused += !drawn.parts[0]->params[i].used;
        cr_assert_not(case_use_varies(drawn.parts[0], i));
    }
    cr_assert_eq(unused, 1);
}

Test(shrink, the_halves_of_a_case_shrink_together)
{
    shrink_for(resumes_with_more_ranks);
    cr_assert_eq(drawn.part_count, 2);
    cr_assert_eq(drawn.parts[1]->world, 2);
    cr_assert_eq(drawn.parts[1]->steps, 2);
    cr_assert_eq(drawn.parts[1]->checkpoint_step, 1);
}

Test(shrink, two_cuts_that_only_go_together_are_made)
{
    shrink_for(keeps_its_steps_per_rank);
    cr_assert_eq(drawn.parts[0]->steps, more_steps + 1);
}

static uint64_t digest(void)
{
    char *text;
    size_t bytes;
    uint64_t sum = 5381;
    cr_assert_eq(case_text(drawn.parts[0], &text, &bytes), ERR_NONE);
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 33 + (unsigned char)text[i];
    free(text);
    return sum;
}

Test(shrink, the_same_answers_give_the_same_case)
{
    struct shrink_result first = shrink_for(has_tied_and_frozen);
    uint64_t expected = digest();
    struct shrink_result second = shrink_for(has_tied_and_frozen);
    cr_assert_eq(digest(), expected);
    cr_assert_eq(first.judged_count, second.judged_count);
}

Test(shrink, an_error_leaves_the_smallest_case_so_far)
{
    struct made_up judge = {.fails = always, .call_limit = 3};
    struct shrink_setting setting = {.judge = ask, .context = &judge};
    struct shrink_result result;
    draw(0);
    int params = drawn.parts[0]->param_count;
    cr_assert_eq(shrink(&setting, &drawn, &result), ERR_USAGE);
    cr_assert_str_eq(err_message(), "the judge is tired");
    cr_assert_not(result.complete);
    cr_assert_lt(drawn.parts[0]->param_count, params);
}

Test(shrink, an_interrupt_and_a_deadline_end_it_at_once)
{
    const volatile sig_atomic_t interrupted = 1;
    struct made_up judge = {.fails = always};
    struct shrink_setting stopped = {.judge = ask, .context = &judge, .interrupted = &interrupted};
    struct shrink_setting late = {.judge = ask, .context = &judge, .deadline_s = 1e-9};
    struct shrink_result result;
    draw(0);
    cr_assert_eq(shrink(&stopped, &drawn, &result), ERR_NONE);
    cr_assert_not(result.complete);
    cr_assert_eq(result.judged_count, 0);
    cr_assert_eq(shrink(&late, &drawn, &result), ERR_NONE);
    cr_assert_not(result.complete);
}

// Fails at random: what is taken was seen to fail, and it ends.
static bool now_and_then(const struct hunt_case *h)
{
    static unsigned turn;
    return h && ++turn % 3 == 0;
}

Test(shrink, a_judge_that_wavers_does_not_keep_it_busy_for_ever)
{
    struct made_up judge = {.fails = now_and_then};
    struct shrink_setting setting = {.judge = ask, .context = &judge};
    struct shrink_result result;
    draw(5);
    cr_assert_eq(shrink(&setting, &drawn, &result), ERR_NONE);
    cr_assert(result.complete);
}
