// SPDX-License-Identifier: Apache-2.0
// A GPT's loss and gradients against an independent loss in double; and training reduces the loss.
#include "ref/arithmetic/gpt_math.h"
#include "ref/model/gpt_reference_test.h"
#include "ref/model/text.h"

Test(gpt, loss_and_gradients_agree_with_plain_loops_in_double)
{
    struct model *model = make(&odd_shape);
    cr_loss(model, reference_loss);
    cr_gradients(model, reference_loss);
    gpt_free(model);
}

Test(gpt, exponential_is_within_two_ulp)
{
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42ae0000; bits += 997) {
        for (int sign = 0; sign < 2; sign++) {
            float x;
            memcpy(&x, &bits, sizeof x);
            x = sign ? -x : x;
            double expected = exp((double)x);
            double ulp = ldexp(1.0, ilogb(expected) - 23);
            worst = fmax(worst, fabs((double)exp_within(x) - expected) / ulp);
        }
    }
    cr_assert(worst <= 2.0, "%.3f ulp", worst);
    cr_assert(exp_within(0.0f) == 1.0f);
    cr_assert(exp_within(1000.0f) == exp_within(87.0f) && exp_within(INFINITY) == exp_within(87.0f));
    cr_assert(exp_within(-INFINITY) == exp_within(-87.0f) && exp_within(-87.0f) > 0);
    cr_assert(isnan(exp_within(NAN)) && isnan(exp_within(-NAN)));
}

Test(gpt, a_token_outside_the_vocabulary_is_refused)
{
    struct model *model = make(&odd_shape);
    cr_token_is_refused(model);
    gpt_free(model);
}

Test(gpt, an_impossible_shape_is_refused)
{
    const struct gpt_shape bad[] = {{1, 10, 3, 4, 5, .tile_count = 1, .product_blocks = 1},
                                    {1, 0, 1, 4, 5, .tile_count = 1, .product_blocks = 1},
                                    {1, 4, 0, 4, 5, .tile_count = 1, .product_blocks = 1},
                                    {1, 4, 2, 0, 5, .tile_count = 1, .product_blocks = 1},
                                    {0, 4, 2, 4, 5, .tile_count = 1, .product_blocks = 1},
                                    {1, 4, 2, 4, 0, .tile_count = 1, .product_blocks = 1},
                                    {1, 4, 2, 4, 70000, .tile_count = 1, .product_blocks = 1},
                                    {1, 4, 2, 4, 5, .tile_count = 0, .product_blocks = 1},
                                    {1, 4, 2, 4, 5, .tile_count = 3, .product_blocks = 1},
                                    {1, 4, 2, 4, 5, .tile_count = 32, .product_blocks = 1}};
    struct model *model;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(gpt_make("bad", &bad[i], &model) == ERR_USAGE, "shape %zu", i);
}

// Plain Adam, 60 steps on the text of the licence. 5.55 is the loss of 256 equally likely bytes: ln 256.
Test(gpt, loss_falls_on_text)
{
    const struct model *model = find("gpt-nano");
    struct trial trial = trial_make(model, 8, DTYPE_FP32, plain);
    struct text *text;
    cr_assert(text_open(ZG_SOURCE_DIR "/LICENSE", &text) == ERR_NONE, "%s", err_message());
    float *m[model->param_count], *v[model->param_count];
    for (int i = 0; i < model->param_count; i++) {
        model_initialise(model, i, 1, trial.params[i]);
        m[i] = calloc(model->params[i].count, sizeof(float));
        v[i] = calloc(model->params[i].count, sizeof(float));
    }
    double first = 0, last = 0;
    for (int step = 1; step <= 60; step++) {
        cr_assert(text_batch(text, 1, (uint64_t)step, 0, 8, model->sequence_length, trial.tokens) == ERR_NONE);
        trial_pass(&trial, 1.0f);
        last = model_loss(trial.run);
        first = step == 1 ? last : first;
        for (int i = 0; i < model->param_count; i++) {
            float *p = trial.params[i], *g = trial.gradients[i].data;
            for (size_t j = 0; j < model->params[i].count; j++) {
                m[i][j] = 0.9f * m[i][j] + 0.1f * g[j];
                v[i][j] = 0.95f * v[i][j] + 0.05f * g[j] * g[j];
                float m_hat = m[i][j] / (1 - powf(0.9f, (float)step)), v_hat = v[i][j] / (1 - powf(0.95f, (float)step));
                p[j] -= 0.01f * m_hat / (sqrtf(v_hat) + 1e-8f);
            }
        }
    }
    for (int i = 0; i < model->param_count; i++) {
        free(m[i]);
        free(v[i]);
    }
    trial_free(&trial);
    text_close(text);
    cr_assert(fabs(first - 5.545) < 0.05, "loss begins at %.3f", first);
    cr_assert(last < 3.3, "loss ends at %.3f", last);
}
