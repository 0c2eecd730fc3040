// SPDX-License-Identifier: Apache-2.0
#include "ref/model/linear.h"

#include "ref/model/gpt_test.h"

enum { PARAM_MAX = 32 };

static struct model_batch batch_at(uint64_t step, int micro, int rank)
{
    return (struct model_batch){.sequence_count = 1, .seed = 3, .step = step, .micro = micro, .rank = rank};
}

// Runs one pass; every element of params is `fill`. Returns the model's gradients, widened to fp32.
static double pass(const struct model *model, const struct model_batch *batch, enum dtype dtype, float fill,
                   float loss_scale, float *gradients[PARAM_MAX])
{
    struct model_run *run;
    void *params[PARAM_MAX];
    struct model_gradient out[PARAM_MAX];
    cr_assert(model_run_open(model, 1, dtype, false, NULL, &run) == ERR_NONE, "%s", err_message());
    for (int i = 0; i < model->param_count; i++) {
        size_t count = model->params[i].count;
        float *value = malloc((count + 1) * sizeof(float));
        for (size_t j = 0; j < count; j++)
            value[j] = fill;
        params[i] = malloc((count + 1) * sizeof(float));
        dtype_narrow(dtype, value, params[i], count);
        free(value);
        out[i].data = model->params[i].frozen ? NULL : malloc((count + 1) * sizeof(float));
        if (out[i].data)
            memset(out[i].data, 0xff, (count + 1) * sizeof(float));
    }
    for (int layer = 0; layer < model->layer_count; layer++)
        cr_assert(model_forward(run, layer, batch, (const void *const *)params, NULL) == ERR_NONE);
    for (int layer = model->layer_count - 1; layer >= 0; layer--) {
        for (int i = 0; i < model->param_count; i++)
            out[i].accumulate = model->params[i].layer_count == 2 && layer == model->params[i].first_layer;
        cr_assert(model_backward(run, layer, batch, (const void *const *)params, out, loss_scale, NULL) == ERR_NONE);
    }
    for (int i = 0; i < model->param_count; i++) {
        gradients[i] = NULL;
        if (out[i].data) {
            gradients[i] = malloc((model->params[i].count + 1) * sizeof(float));
            dtype_widen(dtype, out[i].data, gradients[i], model->params[i].count);
        }
        free(out[i].data);
        free(params[i]);
    }
    double loss = model_loss(run);
    model_run_close(run);
    return loss;
}

static void gradients_free(float *gradients[PARAM_MAX], const struct model *model)
{
    for (int i = 0; i < model->param_count; i++)
        free(gradients[i]);
}

static float round_to(enum dtype dtype, float value)
{
    char bytes[4];
    float out;
    dtype_narrow(dtype, &value, bytes, 1);
    dtype_widen(dtype, bytes, &out, 1);
    return out;
}

// The sum of g over the layers that use a parameter, last layer first, rounded after each addition.
static float expected_gradient(const struct model *model, const struct model_batch *batch, int param, size_t element,
                               enum dtype dtype, float loss_scale)
{
    float sum = 0;
    bool first = true;
    for (int layer = model->layer_count - 1; layer >= 0; layer--) {
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            if (model->layers[layer].params[i] != param)
                continue;
            float g;
            linear_draw(model, batch, layer, param, dtype, element, 1, &g);
            cr_assert(round_to(dtype, g) == g || isnan(g));
            sum = round_to(dtype, first ? g * loss_scale : sum + g * loss_scale);
            first = false;
        }
    }
    return sum;
}

Test(linear, gradients_are_the_generators_values_for_any_parameters)
{
    const char *names[] = {"linear", "linear-exact", "linear-few"};
    for (int n = 0; n < 3; n++) {
        const struct model *model = find(names[n]);
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct model_batch batch = batch_at(4, 1, 2);
            float *one[PARAM_MAX], *other[PARAM_MAX];
            pass(model, &batch, dtype, 0.0f, 4.0f, one);
            pass(model, &batch, dtype, -3.0f, 4.0f, other);
            for (int i = 0; i < model->param_count; i++) {
                cr_assert((one[i] == NULL) == model->params[i].frozen);
                for (size_t j = 0; one[i] && j < model->params[i].count; j++) {
                    float expected = expected_gradient(model, &batch, i, j, dtype, 4.0f);
                    cr_assert(memcmp(&one[i][j], &expected, sizeof expected) == 0, "%s %s[%zu]: %a, not %a", names[n],
                              model->params[i].name, j, (double)one[i][j], (double)expected);
                    cr_assert(memcmp(&one[i][j], &other[i][j], sizeof expected) == 0);
                }
            }
            gradients_free(one, model);
            gradients_free(other, model);
        }
    }
}

Test(linear, loss_is_the_sum_of_parameter_times_gradient)
{
    const struct model *model = find("linear");
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct model_batch batch = batch_at(1, 0, 0);
        float *gradients[PARAM_MAX], g[5000];
        double expected = 0, loss = pass(model, &batch, dtype, 1.5f, 1.0f, gradients);
        for (int layer = 0; layer < model->layer_count; layer++) {
            for (int i = 0; i < model->layers[layer].param_count; i++) {
                int param = model->layers[layer].params[i];
                linear_draw(model, &batch, layer, param, dtype, 0, model->params[param].count, g);
                for (size_t j = 0; j < model->params[param].count; j++)
                    expected += 1.5 * (double)g[j];
            }
        }
        gradients_free(gradients, model);
        cr_assert(fabs(loss - expected) < 1e-12 && loss != 0, "%.17g, not %.17g", loss, expected);
    }
}

Test(linear, an_unused_parameter_has_a_gradient_of_zero)
{
    const char *names[] = {"linear", "linear-exact", "linear-overflow"};
    for (int n = 0; n < 3; n++) {
        const struct model *model = find(names[n]);
        struct model_batch batch = batch_at(1, 0, 0);
        float *gradients[PARAM_MAX];
        int unused = 0;
        pass(model, &batch, DTYPE_BF16, 1.0f, 1.0f, gradients);
        for (int i = 0; i < model->param_count; i++) {
            for (size_t j = 0; !model->params[i].used && j < model->params[i].count; j++, unused++)
                cr_assert(gradients[i][j] == 0.0f && !signbit(gradients[i][j]));
        }
        gradients_free(gradients, model);
        cr_assert(unused > 0);
    }
}

Test(linear, every_coordinate_changes_the_gradients)
{
    const struct model *model = find("linear");
    struct model_batch base = batch_at(1, 0, 0),
                       changed[] = {batch_at(2, 0, 0), batch_at(1, 1, 0), batch_at(1, 0, 1), base};
    changed[3].seed++;
    float here[5000], there[5000];
    linear_draw(model, &base, 3, 8, DTYPE_FP32, 0, 5000, here);
    for (int i = 0; i < 4; i++) {
        int same = 0;
        linear_draw(model, &changed[i], 3, 8, DTYPE_FP32, 0, 5000, there);
        for (int j = 0; j < 5000; j++)
            same += here[j] == there[j];
        cr_assert(same < 50, "%d of 5000 are the same in case %d", same, i);
    }
    linear_draw(model, &base, 3, 8, DTYPE_FP32, 4000, 1000, there);
    cr_assert(memcmp(here + 4000, there, 1000 * sizeof *there) == 0, "an element depends on where the call began");
}

Test(linear, values_are_wide_and_a_twentieth_is_zero)
{
    const struct model *model = find("linear");
    struct model_batch batch = batch_at(1, 0, 0);
    float g[5000];
    int zeros = 0, negative = 0, octaves[32] = {0}, odd = 0;
    linear_draw(model, &batch, 3, 8, DTYPE_FP32, 0, 5000, g);
    for (int j = 0; j < 5000; j++) {
        zeros += g[j] == 0;
        negative += signbit(g[j]) != 0;
        uint32_t bits;
        memcpy(&bits, &g[j], sizeof bits);
        odd += (int)(bits & 1);
        if (g[j] != 0)
            octaves[-ilogbf(g[j])]++;
    }
    cr_assert(zeros > 180 && zeros < 330, "%d zeros", zeros);
    cr_assert(negative > 2300 && negative < 2700, "%d negative", negative);
    cr_assert(odd > 2100, "%d with the last bit set", odd);
    for (int octave = 0; octave < 32; octave++)
        cr_assert((octaves[octave] > 150) == (octave >= 7 && octave <= 26), "octave -%d: %d", octave, octaves[octave]);
}

// linear-exact rounds in no order of sums, with the division before or after, in the run's own format.
static void cr_exact(const struct model *model, enum dtype dtype, int param, size_t element, int world,
                     int accumulation)
{
    float terms[44 * 2];
    int count = 0;
    long long whole = 0;
    for (int micro = 0; micro < accumulation; micro++) {
        for (int rank = 0; rank < world; rank++) {
            struct model_batch batch = batch_at(5, micro, rank);
            terms[count++] = expected_gradient(model, &batch, param, element, dtype, 1.0f);
        }
    }
    for (int i = 0; i < count; i++)
        whole += (long long)ldexpf(terms[i], 14);
    double sum = ldexp((double)whole, -14), mean = sum / (world * accumulation);
    for (int order = 0; order < 3; order++) {
        float after = 0, before = 0, scaled = 0;
        for (int i = count - 1; i > 0; i--) {
            int other = (int)random_below(random_at((uint64_t)order, (uint64_t)i), (uint64_t)i + 1);
            float kept = terms[i];
            terms[i] = terms[other], terms[other] = kept;
        }
        for (int i = 0; i < count; i++) {
            after = round_to(dtype, after + terms[i]);
            float part = round_to(dtype, round_to(dtype, terms[i] / (float)world) / (float)accumulation);
            before = round_to(dtype, before + part);
            scaled = round_to(dtype, scaled + round_to(dtype, 65536.0f * terms[i]));
        }
        float of_sum = round_to(dtype, round_to(dtype, after / (float)world) / (float)accumulation);
        cr_assert((double)after == sum, "sum of %s[%zu]: %a, not %a", model->params[param].name, element, (double)after,
                  sum);
        cr_assert((double)of_sum == mean, "mean of %s[%zu]: %a, not %a", model->params[param].name, element,
                  (double)of_sum, mean);
        cr_assert((double)before == mean, "mean of %s[%zu]: %a before, not %a", model->params[param].name, element,
                  (double)before, mean);
        cr_assert((double)scaled == 65536 * sum, "scaled sum of %s[%zu]", model->params[param].name, element);
    }
}

Test(linear, exact_gradients_never_round_in_any_order_division_or_dtype)
{
    const struct model *model = find("linear-exact");
    const int worlds[] = {1, 2, 3, 4, 8, 11}, accumulations[] = {1, 2, 4}, params[] = {0, 8, 13};
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        for (int p = 0; p < 3; p++) {
            for (int w = 0; w < 6; w++) {
                for (int a = 0; a < 3; a++) {
                    for (size_t j = 0; j < 100; j++)
                        cr_exact(model, dtype, params[p], j, worlds[w], accumulations[a]);
                }
            }
        }
    }
}

Test(linear, exact_gradients_of_the_first_pair_are_dense_in_every_dtype)
{
    const struct model *model = find("linear-exact");
    struct model_batch batch = batch_at(1, 0, 0);
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        float g[5000];
        int zeros = 0;
        linear_draw(model, &batch, 3, 8, dtype, 0, 5000, g);
        for (int j = 0; j < 5000; j++)
            zeros += g[j] == 0;
        cr_assert(zeros > 150 && zeros < 350, "%d zeros in %s", zeros, dtype_name(dtype));
    }
}

Test(linear, overflow_comes_every_third_step_on_one_rank_and_never_in_the_loss)
{
    const struct model *model = find("linear-overflow"), *usual_model = find("linear");
    for (uint64_t step = 1; step <= 12; step++) {
        for (int rank = 0; rank < 3; rank++) {
            for (int micro = 0; micro < 2; micro++) {
                struct model_batch batch = batch_at(step, micro, rank);
                float *gradients[PARAM_MAX], *usual[PARAM_MAX];
                double loss = pass(model, &batch, DTYPE_FP16, 1.0f, 65536.0f, gradients);
                pass(usual_model, &batch, DTYPE_FP16, 1.0f, 65536.0f, usual);
                int infinities = 0, nans = 0, others = 0;
                for (int i = 0; i < model->param_count; i++) {
                    for (size_t j = 0; gradients[i] && j < model->params[i].count; j++) {
                        infinities += isinf(gradients[i][j]) != 0;
                        nans += isnan(gradients[i][j]) != 0;
                        others += gradients[i][j] != usual[i][j];
                    }
                }
                cr_assert(infinities == (step % 6 == 3 && rank == 0 && micro == 0));
                cr_assert(nans == (step % 6 == 0 && rank == 1 && micro == 0));
                cr_assert(others == infinities + nans);
                cr_assert(isfinite(loss));
                gradients_free(gradients, model);
                gradients_free(usual, usual_model);
            }
        }
    }
}
