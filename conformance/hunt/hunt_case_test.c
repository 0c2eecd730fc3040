// SPDX-License-Identifier: Apache-2.0
// Drawn cases, and what is cut from them and added to them.
#include "conformance/hunt/hunt_case.h"
#include "base/err.h"
#include "conformance/hunt/hunt_mesh.h"

#include <criterion/criterion.h>
#include <math.h>

// Closes what *out has, and opens a drawn case.
static void draw(uint64_t number, struct hunt_case *out)
{
    struct check_case parts[2];
    int count = hunt_draw(1, number, 0, parts);
    hunt_case_close(out);
    cr_assert_eq(hunt_case_open(&parts[0], count == 2 ? &parts[1] : NULL, out), ERR_NONE, "%s", err_message());
}

// A cut keeps the numbers of the places that the map names.
Test(hunt_case, a_cut_keeps_the_numbers_of_what_remains)
{
    struct hunt_case whole = {0}, cut;
    bool legal;
    for (uint64_t number = 0;
         number == 0 || (whole.part_count > 1 || whole.parts[0]->world < 2 || whole.parts[0]->params[3].count < 2 ||
                         !case_is_used(whole.parts[0], 3) || !case_is_trained(whole.parts[0], 3));
         number++)
        draw(number, &whole);
    struct check_case c = *whole.parts[0];
    struct hunt_map map;
    hunt_map_same(&map);
    c.world = 1;
    c.steps = 1;
    c.delayed_update = 0;
    c.param_count = 1;
    c.params[0] = whole.parts[0]->params[3];
    c.params[0].shape_rank = 1;
    c.params[0].shape[0] = c.params[0].count = 1;
    map.step[0] = 2;
    map.rank[0][0] = 1;
    map.param[0] = 3;
    map.first[0] = 1;
    cr_assert_eq(hunt_case_cut(&whole, &c, 1, &map, &cut, &legal), ERR_NONE, "%s", err_message());
    cr_assert(legal);
    cr_assert_eq(case_gradient(cut.values[0], 1, 0, 0, 0)[0], case_gradient(whole.values[0], 3, 0, 1, 3)[1]);
    cr_assert_eq(case_initial(cut.values[0], 0)[0], case_initial(whole.values[0], 3)[1]);
    hunt_case_close(&cut);
    hunt_case_close(&whole);
}

// The longer case goes on as it ended, in both of its halves.
Test(hunt_case, one_more_step_repeats_the_last)
{
    struct hunt_case before = {0}, after;
    bool legal;
    for (uint64_t number = 0;
         number == 0 || (before.part_count == 1 || !before.parts[1]->groups[0].lr_by_step ||
                         before.parts[1]->world < 2 || before.parts[0]->params[0].count == 0 ||
                         !case_is_used(before.parts[0], 0) || !case_is_trained(before.parts[0], 0));
         number++)
        draw(number, &before);
    int steps = before.parts[1]->steps;
    cr_assert_eq(hunt_case_longer(&before, &after, &legal), ERR_NONE, "%s", err_message());
    cr_assert(legal);
    cr_assert_eq(after.parts[0]->steps, steps + 1);
    cr_assert_eq(after.parts[1]->steps, steps + 1);
    cr_assert_eq(after.parts[1]->groups[0].lr[steps], before.parts[1]->groups[0].lr[steps - 1]);
    cr_assert_neq(after.parts[1]->groups[0].lr[steps], 0);
    cr_assert_eq(case_gradient(after.values[1], steps + 1, 0, 1, 0)[0],
                 case_gradient(before.values[1], steps, 0, 1, 0)[0]);
    cr_assert_eq(case_gradient(after.values[1], steps, 0, 1, 0)[0], case_gradient(before.values[1], steps, 0, 1, 0)[0]);
    hunt_case_close(&after);
    hunt_case_close(&before);
}

Test(hunt_case, drawn_cases_are_exact_as_they_say)
{
    for (uint64_t number = 0; number < 60; number++) {
        struct hunt_case h = {0};
        draw(number, &h);
        bool said = h.parts[0]->exact;
        cr_assert_eq(hunt_case_find_exact(&h), ERR_NONE);
        cr_assert_eq(h.parts[0]->exact, said, "case %d", (int)number);
        hunt_case_close(&h);
    }
}

static bool has_long(const struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].count > (size_t)c->world * 2048)
            return true;
    return false;
}

static bool overflows_twice(const struct check_case *c)
{
    int first = 0;
    for (int i = 0; i < c->data.poke_count; i++) {
        if (!isfinite(c->data.pokes[i].value) && first > 0 && c->data.pokes[i].step != first)
            return true;
        if (!isfinite(c->data.pokes[i].value))
            first = c->data.pokes[i].step;
    }
    return false;
}

// A draw also has the numbers that bugs of file names, of pieces of a shard and of the ends of formats need, and stays
// legal.
Test(hunt_case, ranks_of_two_digits_long_parameters_and_the_largest_number_are_drawn)
{
    enum { KIND_SEEN = 6 };  // draws of each kind that are looked at closely, which takes long
    int wide = 0, wide_halves = 0, largest = 0, is_long = 0, long_halves = 0, again = 0;
    for (uint64_t number = 0; number < 600; number++) {
        struct check_case parts[2];
        int count = hunt_draw(1, number, 0, parts);
        bool is_largest = false, legal;
        for (int i = 0; i < parts[0].data.poke_count; i++)
            is_largest |= (double)parts[0].data.pokes[i].value * parts[0].loss_scale.scale == 65504;
        again += overflows_twice(&parts[0]);
        wide += parts[0].world == 11;
        wide_halves += parts[0].world == 11 && count == 2;
        is_long += has_long(&parts[0]);
        long_halves += count == 2 && has_long(&parts[0]) && has_long(&parts[1]);
        largest += is_largest;
        if (!(parts[0].world == 11 && wide <= KIND_SEEN) && !(is_largest && largest <= KIND_SEEN) &&
            !(overflows_twice(&parts[0]) && again <= KIND_SEEN) && !(has_long(&parts[0]) && is_long <= KIND_SEEN))
            continue;
        struct hunt_case h = {0};
        draw(number, &h);
        bool said = h.parts[0]->exact;
        cr_assert_eq(hunt_case_is_legal(&h, &legal), ERR_NONE);
        cr_assert(legal, "case %d: %s", (int)number, err_message());
        cr_assert_eq(hunt_case_find_exact(&h), ERR_NONE);
        cr_assert_eq(h.parts[0]->exact, said, "case %d", (int)number);
        hunt_case_close(&h);
    }
    cr_assert(wide > 5 && wide_halves > 0 && largest > 2, "%d, %d, %d", wide, wide_halves, largest);
    cr_assert(is_long > 5 && long_halves > 0 && again > 5, "%d, %d, %d", is_long, long_halves, again);
}

Test(hunt_case, a_sum_that_rounds_is_not_exact)
{
    struct hunt_case h = {0};
    for (uint64_t number = 0;
         number == 0 || (h.part_count > 1 || h.parts[0]->world != 3 || h.parts[0]->precision != DTYPE_FP32 ||
                         h.parts[0]->params[0].count == 0 || !case_is_used(h.parts[0], 0));
         number++)
        draw(number, &h);
    cr_assert(h.parts[0]->exact);
    static const float values[] = {1, 0x1p-24f, 0x1p-24f};
    for (int rank = 0; rank < 3; rank++)
        case_values_gradient(h.values[0], 1, 0, rank, 0)[0] = values[rank];
    cr_assert_eq(hunt_case_find_exact(&h), ERR_NONE);
    cr_assert_not(h.parts[0]->exact);
    hunt_case_close(&h);
}
