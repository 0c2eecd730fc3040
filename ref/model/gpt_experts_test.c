// SPDX-License-Identifier: Apache-2.0
// A GPT with mixtures of experts: its loss and gradients against an independent loss in double, and its router's rules.
#include "ref/model/gpt_reference_test.h"
#include "ref/model/gpt_route.h"

static struct gpt_shape shape_of(size_t experts, size_t top, size_t capacity_thousandths)
{
    struct gpt_shape shape = odd_shape;
    shape.experts = (struct gpt_experts){experts, top, capacity_thousandths, 0};
    return shape;
}

Test(gpt_experts, loss_agrees_with_a_plain_loop_in_double)
{
    const struct gpt_shape shapes[] = {shape_of(3, 1, 1000), shape_of(3, 2, 1250), shape_of(4, 2, 700),
                                       shape_of(1, 1, 1000), shape_of(2, 2, 2000), shape_of(5, 1, 600)};
    int dropped = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct model *model = make(&shapes[i]);
        dropped += cr_loss(model, reference_loss) > 0;
        gpt_free(model);
    }
    cr_assert(dropped >= 3, "tokens are dropped with %d shapes", dropped);
}

Test(gpt_experts, gradients_agree_with_central_differences_in_double)
{
    struct gpt_shape shapes[] = {shape_of(3, 1, 700), shape_of(3, 2, 1250), shape_of(4, 2, 700), shape_of(3, 1, 1250),
                                 shape_of(4, 2, 700)};
    // The loss that is reported has no part of it.
    shapes[3].experts.aux_loss_thousandths = 1000;
    shapes[4].experts.aux_loss_thousandths = 300;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct model *model = make(&shapes[i]);
        cr_assert(i % 2 == 1 || cr_loss(model, reference_loss) > 0, "shape %zu drops no token", i);
        cr_gradients(model, reference_loss);
        gpt_free(model);
    }
}

// Of equal probabilities the lower index wins; first choices take slots before second ones, in the order of tokens.
Test(gpt_experts, ties_and_slots_follow_the_order_of_experts_and_tokens)
{
    enum { ROWS = 3, COLUMNS = 4 };
    const float logits[ROWS * COLUMNS] = {1, 1, 1, 1, 0, 2, 0, 2, 3, 0, 0, 3};
    float probabilities[ROWS * COLUMNS], gates[ROWS * 2];
    int32_t slots[ROWS * 2];
    const struct gpt_routes routes = {ROWS, COLUMNS, 2, 1, probabilities, gates, slots};
    gpt_route(&routes, logits);
    // Choices: (0, 1), (1, 3), (0, 3). Expert 0's only slot is token 0's, 1's is token 1's first choice, 3's is token
    // 1's second choice.
    const int32_t expected[ROWS * 2] = {0, -1 - 1, 1, 3, -1 - 0, -1 - 3};
    const float weights[ROWS * 2] = {0.5f, 0, 0.5f, 0.5f, 0, 0};
    for (int i = 0; i < ROWS * 2; i++) {
        cr_expect_eq(slots[i], expected[i], "slot %d is %d", i, slots[i]);
        cr_expect_eq(gates[i], weights[i], "gate %d is %g", i, (double)gates[i]);
    }
}

Test(gpt_experts, the_first_of_equal_experts_has_the_gate_of_switch_transformers)
{
    const float logits[] = {0, 2, 2}, gradient = 3;
    float p[3], gate, back[3];
    int32_t slot;
    const struct gpt_routes routes = {1, 3, 1, 1, p, &gate, &slot};
    gpt_route(&routes, logits);
    cr_expect_eq(slot, 1);
    cr_expect_eq(gate, p[1]);
    gpt_route_back(&routes, &gradient, back);
    const double expected[3] = {-3.0 * (double)p[1] * (double)p[0], 3.0 * (double)p[1] * (1 - (double)p[1]),
                                -3.0 * (double)p[1] * (double)p[2]};
    for (int i = 0; i < 3; i++)
        cr_expect(fabs((double)back[i] - expected[i]) < 1e-6, "%d: %g, not %g", i, (double)back[i], expected[i]);
}

Test(gpt_experts, parts_have_all_experts_once_with_the_whole_models_values)
{
    struct gpt_shape shape = shape_of(4, 2, 1000);
    struct model *whole = make(&shape);
    int held[whole->param_count];
    struct model_part *part;
    memset(held, 0, sizeof held);
    for (int index = 0; index < 2; index++) {
        const struct model_place place = {0, 1, 0, 1, index, 2};
        cr_assert(model_part_open(whole, &place, &part) == ERR_NONE, "%s", err_message());
        cr_expect_eq(gpt_experts_held(&part->model), 2);
        for (int i = 0; i < part->model.param_count; i++) {
            int whole_param = part->slices[i].param;
            const struct model_param *p = &part->model.params[i], *w = &whole->params[whole_param];
            float a[p->count], b[p->count];
            cr_assert_str_eq(p->name, w->name);
            cr_assert(p->expert == w->expert && p->count == w->count && !p->duplicate);
            held[whole_param]++;
            model_initialise(&part->model, i, 5, a);
            model_initialise(whole, whole_param, 5, b);
            cr_assert(memcmp(a, b, sizeof a) == 0, "%s differs", p->name);
        }
        model_part_close(part);
    }
    for (int i = 0; i < whole->param_count; i++)
        cr_expect_eq(held[i], whole->params[i].expert ? 1 : 2, "%s", whole->params[i].name);
    const struct model_place third = {0, 1, 0, 1, 0, 3};
    cr_expect_eq(model_part_open(whole, &third, &part), ERR_USAGE);
    gpt_free(whole);
}

// The softmax's bits decide a route, and with checkpointing backward routes again.
Test(gpt_experts, checkpointing_keeps_every_bit)
{
    struct gpt_shape shape = shape_of(4, 2, 900);
    struct model *model = make(&shape);
    cr_checkpoints_suffice(model);
    gpt_free(model);
}

// A power of two as loss scale multiplies every gradient exactly, that of the auxiliary loss included.
Test(gpt_experts, gradients_scale_with_the_loss)
{
    struct gpt_shape shape = shape_of(4, 2, 900);
    shape.experts.aux_loss_thousandths = 500;
    struct model *model = make(&shape);
    cr_scales_exactly(model, 8.0f);
    gpt_free(model);
}
