// SPDX-License-Identifier: Apache-2.0
// The generator against datasets/cases/GENERATOR.md's values, and against what its families promise.
#include "conformance/cases/generator.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>

enum { ELEMENTS = 9 };

static struct check_case plain(void)
{
    struct check_case c = {.world = 3, .steps = 2, .accumulation = 2, .param_count = 3};
    for (int i = 0; i < 3; i++)
        c.params[i] = (struct case_param){.count = ELEMENTS, .used = true, .tied_to = i == 2 ? 0 : -1};
    c.data = (struct case_data){
        .seed = 42, .unit = 3, .reach = 20, .spread = 7, .exponent_low = -6, .exponent_high = -2, .init_exponent = 1};
    return c;
}

static double sum_over_slots(const struct check_case *c, int step, int param, size_t element)
{
    double sum = 0;
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            sum += (double)generator_gradient(c, step, micro, rank, param, element);
    return sum;
}

Test(generator, bits_are_those_written_down)
{
    cr_assert_eq(random_mix(0), 0xe220a8397b1dcdafu);
    cr_assert_eq(random_mix(1), 0x910a2dec89025cc1u);
    cr_assert_eq(random_key(0, 0), 0xa706dd2f4d197e6fu);
    cr_assert_eq(random_key(1, 2), 0xe06dd043328bd285u);
    cr_assert_eq(random_below(random_mix(1), 10), 5);
    cr_assert_eq(random_below(UINT64_MAX, 10), 9);
}

struct vector {
    const char *name;
    struct case_data data;  // added to that of plain()
    float first[4], tied[4];
    double sum[4];
};

static const struct vector vectors[] = {
    {"plain",
     {.reach = 20},
     {0x1.68p+0f, 0, -0x1.ep-2f, -0x1.8p+2f},
     {0x1.bp+2f, 0, -0x1.ep+0f, -0x1.2p-2f},
     {0x1.98p+1, 0x1.ep+2, 0x1.f8p+1, 0x1.98p+3}},
    {"same_mean",
     {.reach = 20, .same_mean = true},
     {-0x1.2p-2f, 0x1.8p+1f, 0x1.c8p+0f, 0x1.bp+2f},
     {-0x1.c8p+2f, -0x1.2p-1f, 0x1.8p-2f, 0x1.8p-1f},
     {-0x1.f8p+1, 0x1.2p+2, 0x1.56p+3, 0x1.bp+4}},
    {"square_norm",
     {.reach = 5, .same_mean = true, .square_norm = true},
     {0x1.ep+0f, 0x1.8p-1f, -0x1.2p+0f, -0x1.8p-1f},
     {0x1.8p-1f, -0x1.8p-2f, 0x1.ep+1f, -0x1.8p+0f},
     {0x1.2p+1, -0x1.2p+1, -0x1.bp+2, -0x1.68p+3}},
    {"paired",
     {.reach = 20, .paired = true},
     {0x1.8p-3f, -0x1.8p+2f, 0x1.8p+0f, 0x1.8p+0f},
     {-0x1.8p+0f, -0x1.8p-1f, 0x1.8p-3f, -0x1.8p-1f},
     {0, -0x1.2p+3, -0x1.2p-1, -0x1.5p+3}},
    {"lone",
     {.reach = 20, .family = FAMILY_LONE},
     {0, 0, 0, 0},
     {0, 0, 0, 0},
     {0x1.1e8138p-5, -0x1.5fa726p-2, -0x1.d97946p-5, -0x1.40b77cp-2}},
    {"rounding",
     {.reach = 20, .family = FAMILY_ROUNDING},
     {0x1.9ap-6f, 0x1.1ep-3f, -0x1.24p-3f, -0x1.c8p-2f},
     {-0x1.86p-5f, 0x1.9ap-6f, 0x1.8ap-2f, -0x1.8ap-4f},
     {0x1.14p-2, -0x1.742p-2, 0x1.228p-3, -0x1.6dap-2}},
};

Test(generator, numbers_are_those_written_down)
{
    static const float initial[2][4] = {{0x1.2231cp-1f, -0x1.3adacep+0f, -0x1.7f633ep-1f, -0x1.470b1p-2f},
                                        {0x1.22p-1f, -0x1.3ap+0f, -0x1.7ep-1f, -0x1.46p-2f}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *v = &vectors[i];
        struct check_case c = plain();
        c.precision = v->data.family == FAMILY_ROUNDING ? DTYPE_BF16 : DTYPE_FP32;
        c.data.family = v->data.family;
        c.data.reach = v->data.reach;
        c.data.same_mean = v->data.same_mean;
        c.data.square_norm = v->data.square_norm;
        c.data.paired = v->data.paired;
        for (size_t e = 0; e < 4; e++) {
            cr_expect_eq(generator_initial(&c, 1, e), initial[c.precision == DTYPE_BF16][e], "%s", v->name);
            cr_expect_eq(generator_gradient(&c, 2, 1, 0, 1, e), v->first[e], "%s: %zu", v->name, e);
            cr_expect_eq(generator_gradient(&c, 2, 1, 2, 2, e), v->tied[e], "%s: tied, %zu", v->name, e);
            cr_expect_eq(sum_over_slots(&c, 2, 1, e), v->sum[e], "%s: sum, %zu", v->name, e);
        }
    }
}

Test(generator, the_same_mean_is_the_same_at_every_world_although_ranks_differ)
{
    struct check_case c = plain();
    double means[ELEMENTS];
    c.data.same_mean = true;
    size_t different = 0;
    for (c.world = 1; c.world <= 11; c.world++)
        for (c.accumulation = 1; c.accumulation <= 4; c.accumulation++)
            for (size_t e = 0; e < ELEMENTS; e++) {
                double slots = c.world * c.accumulation;
                double mean = (sum_over_slots(&c, 1, 0, e) + sum_over_slots(&c, 1, 2, e)) / slots;
                if (slots == 1)
                    means[e] = mean;
                cr_assert_eq(mean, means[e], "world %d, %d micro-steps", c.world, c.accumulation);
                if (c.world > 1)
                    different += generator_gradient(&c, 1, 0, 0, 1, e) != generator_gradient(&c, 1, 0, 1, 1, e);
            }
    cr_assert_gt(different, 300);
}

Test(generator, square_norms_are_squares_of_six_in_every_four_elements)
{
    struct check_case c = plain();
    c.data.same_mean = c.data.square_norm = true;
    c.data.reach = 5;
    bool orders[4] = {0};
    for (int step = 1; step <= 20; step++) {
        double sum = 0, unit = ldexp(3, generator_exponent(&c, step, 0, 0));
        for (size_t e = 0; e < 4; e++) {
            double mean = (sum_over_slots(&c, step, 0, e) + sum_over_slots(&c, step, 2, e)) / 6 / unit;
            sum += mean * mean;
            orders[e] |= fabs(mean) == 5;
            cr_assert_eq(generator_exponent(&c, step, 1, e), generator_exponent(&c, step, 0, 0));
        }
        cr_assert_eq(sum, 36);
    }
    cr_assert(orders[0] && orders[1] && orders[2] && orders[3]);
}

Test(generator, paired_numbers_and_their_sums_are_powers_of_two)
{
    struct check_case c = plain();
    c.data.paired = true;
    c.data.unit = 1;
    for (c.world = 1; c.world <= 8; c.world++)
        for (int step = 1; step <= 40; step++) {
            double sum = 0;
            int exponent, other;
            for (int rank = 0; rank < c.world; rank++) {
                double gradient = (double)generator_gradient(&c, step, 0, rank, 1, 4);
                cr_assert(gradient == 0 || fabs(frexp(gradient, &exponent)) == 0.5);
                sum += gradient;
            }
            cr_assert(sum == 0 || fabs(frexp(sum, &other)) == 0.5);
        }
}

Test(generator, a_lone_value_has_its_element_to_itself)
{
    struct check_case c = plain();
    c.data.family = FAMILY_LONE;
    bool seen[6] = {0};
    for (int step = 1; step <= 20; step++)
        for (size_t e = 0; e < ELEMENTS; e++) {
            int count = 0;
            for (int slot = 0; slot < 6; slot++)
                if (generator_gradient(&c, step, slot / 3, slot % 3, 1, e) != 0) {
                    seen[slot] = true;
                    count++;
                }
            cr_assert_eq(count, 1);
        }
    for (int slot = 0; slot < 6; slot++)
        cr_assert(seen[slot], "slot %d", slot);
}

Test(generator, steps_are_alike_or_zero_where_they_should_be)
{
    struct check_case c = plain();
    c.data.lead = 8;
    float first = generator_gradient(&c, 1, 1, 0, 1, 3);
    cr_assert_neq(first, generator_gradient(&c, 2, 1, 0, 1, 3));
    c.data.steps_alike = true;
    cr_assert_eq(first, generator_gradient(&c, 2, 1, 0, 1, 3));
    float led = generator_gradient(&c, 1, 0, 0, 1, 3);
    c.data.lead = 0;
    cr_assert_eq(led, 256 * generator_gradient(&c, 1, 0, 0, 1, 3));
    cr_assert_eq(first, generator_gradient(&c, 1, 1, 0, 1, 3));
    c.data.zero_steps = 2;
    cr_assert_eq(generator_gradient(&c, 1, 1, 0, 1, 3), first);
    cr_assert_eq(generator_gradient(&c, 2, 1, 0, 1, 3), 0);
}

Test(generator, initial_parameters_are_within_three_octaves_and_of_both_signs)
{
    struct check_case c = plain();
    int negative = 0, octaves[3] = {0};
    for (size_t e = 0; e < 300; e++) {
        float x = generator_initial(&c, 0, e);
        negative += x < 0;
        cr_assert(fabsf(x) >= 0.25f && fabsf(x) < 2);
        octaves[ilogbf(x) + 2]++;
    }
    cr_assert(negative > 100 && negative < 200);
    cr_assert(octaves[0] > 60 && octaves[1] > 60 && octaves[2] > 60);
}
