// SPDX-License-Identifier: Apache-2.0
// A GPT's loss and gradients against an independent loss in double; and training reduces the loss.
#include "ref/arithmetic/gpt_math.h"
#include "ref/model/gpt_trial.h"
#include "ref/model/text.h"

#include <math.h>

static const struct placing plain = {0};

// An independent loss in double, in textbook loops, which shares only the order of parameters with the model.
struct reference {
    const struct gpt_shape *shape;
    double **params;
    double x[8][32];  // position, channel
};

static void reference_norm(const double *in, size_t width, const double *weight, const double *bias, double *out)
{
    double mean = 0, variance = 0;
    for (size_t j = 0; j < width; j++)
        mean += in[j] / (double)width;
    for (size_t j = 0; j < width; j++)
        variance += (in[j] - mean) * (in[j] - mean) / (double)width;
    for (size_t j = 0; j < width; j++)
        out[j] = (in[j] - mean) / sqrt(variance + 1e-5) * weight[j] + bias[j];
}

static void reference_linear(const double *in, size_t in_width, const double *weight, const double *bias,
                             size_t out_width, double *out)
{
    for (size_t j = 0; j < out_width; j++) {
        out[j] = bias[j];
        for (size_t i = 0; i < in_width; i++)
            out[j] += in[i] * weight[i * out_width + j];
    }
}

static void reference_attention(struct reference *r, double **p)
{
    size_t width = r->shape->width, heads = r->shape->head_count, head_width = width / heads;
    double normed[32], qkv[8][96], mixed[32], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[t], width, p[0], p[1], normed);
        reference_linear(normed, width, p[2], p[3], 3 * width, qkv[t]);
    }
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        for (size_t h = 0; h < heads; h++) {
            double score[8], sum = 0;
            for (size_t u = 0; u <= t; u++) {
                score[u] = 0;
                for (size_t j = h * head_width; j < (h + 1) * head_width; j++)
                    score[u] += qkv[t][j] * qkv[u][width + j];
                score[u] = exp(score[u] / sqrt((double)head_width));
                sum += score[u];
            }
            for (size_t j = h * head_width; j < (h + 1) * head_width; j++) {
                mixed[j] = 0;
                for (size_t u = 0; u <= t; u++)
                    mixed[j] += score[u] / sum * qkv[u][2 * width + j];
            }
        }
        reference_linear(mixed, width, p[4], p[5], width, out);
        for (size_t j = 0; j < width; j++)
            r->x[t][j] += out[j];
    }
}

static void reference_mlp(struct reference *r, double **p)
{
    size_t width = r->shape->width;
    double normed[32], hidden[128], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[t], width, p[6], p[7], normed);
        reference_linear(normed, width, p[8], p[9], 4 * width, hidden);
        for (size_t j = 0; j < 4 * width; j++) {
            double x = hidden[j];
            hidden[j] = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        }
        reference_linear(hidden, 4 * width, p[10], p[11], width, out);
        for (size_t j = 0; j < width; j++)
            r->x[t][j] += out[j];
    }
}

static double reference_loss(struct reference *r, const struct model_batch *batch)
{
    size_t width = r->shape->width, length = r->shape->sequence_length;
    double loss = 0, **last = r->params + 2 + 12 * r->shape->block_count;
    for (size_t s = 0; s < batch->sequence_count; s++) {
        const uint16_t *tokens = batch->tokens + s * (length + 1);
        for (size_t t = 0; t < length; t++) {
            for (size_t j = 0; j < width; j++)
                r->x[t][j] = r->params[0][tokens[t] * width + j] + r->params[1][t * width + j];
        }
        for (size_t block = 0; block < r->shape->block_count; block++) {
            reference_attention(r, r->params + 2 + 12 * block);
            reference_mlp(r, r->params + 2 + 12 * block);
        }
        for (size_t t = 0; t < length; t++) {
            double normed[32], sum = 0, right = 0;
            reference_norm(r->x[t], width, last[0], last[1], normed);
            for (size_t v = 0; v < r->shape->vocabulary; v++) {
                double logit = 0;
                for (size_t j = 0; j < width; j++)
                    logit += normed[j] * r->params[0][v * width + j];
                sum += exp(logit);
                right = v == tokens[t + 1] ? logit : right;
            }
            loss += (log(sum) - right) / (double)(length * batch->sequence_count);
        }
    }
    return loss;
}

static struct reference reference_make(const struct trial *trial)
{
    struct reference r = {.shape = trial->model->shape};
    r.params = calloc((size_t)trial->model->param_count, sizeof *r.params);
    for (int i = 0; i < trial->model->param_count; i++) {
        size_t count = trial->model->params[i].count;
        r.params[i] = malloc(count * sizeof(double));
        for (size_t j = 0; j < count; j++)
            r.params[i][j] = (double)trial->values[i][j];
    }
    return r;
}

// The central difference of the loss along a direction in one tensor: +1 or -1 for every element, or for one alone.
static double difference(struct reference *r, const struct trial *trial, int param, const double *direction)
{
    const double h = 1e-4;
    size_t count = trial->model->params[param].count;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (size_t j = 0; j < count; j++)
            r->params[param][j] = (double)trial->values[param][j] + (side ? -h : h) * direction[j];
        loss[side] = reference_loss(r, &trial->batch);
    }
    for (size_t j = 0; j < count; j++)
        r->params[param][j] = (double)trial->values[param][j];
    return (loss[0] - loss[1]) / (2 * h);
}

static void reference_free(struct reference *r, const struct model *model)
{
    for (int i = 0; i < model->param_count; i++)
        free(r->params[i]);
    free(r->params);
}

Test(gpt, loss_agrees_with_a_plain_loop_in_double)
{
    struct model *model = make(&odd_shape);
    struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    struct reference reference = reference_make(&trial);
    trial_forward(&trial);
    double expected = reference_loss(&reference, &trial.batch);
    cr_assert(fabs(model_loss(trial.run) - expected) < 2e-6 * expected, "%.9f, not %.9f", model_loss(trial.run),
              expected);
    reference_free(&reference, model);
    trial_free(&trial);
    gpt_free(model);
}

Test(gpt, gradients_agree_with_central_differences_in_double)
{
    struct model *model = make(&odd_shape);
    struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    struct reference reference = reference_make(&trial);
    trial_pass(&trial, 1.0f);
    for (int i = 0; i < model->param_count; i++) {
        size_t count = model->params[i].count;
        const char *name = model->params[i].name;
        const float *gradient = trial.gradients[i].data;
        double *direction = calloc(count, sizeof *direction), along = 0, sum = 0;
        float largest = 0;
        for (size_t j = 0; j < count; j++)
            largest = fmaxf(largest, fabsf(gradient[j]));
        cr_assert(largest > 1e-5, "%s has no gradient", name);
        for (size_t j = 0; j < count; j += 1 + count / 7) {
            direction[j] = 1;
            double expected = difference(&reference, &trial, i, direction);
            direction[j] = 0;
            cr_assert(fabs(gradient[j] - expected) <= 1e-4 * fabs(expected) + 1e-5 * largest, "%s[%zu]: %.9g, not %.9g",
                      name, j, (double)gradient[j], expected);
        }
        // And all elements at once with random signs: an error in any of them shows.
        for (size_t j = 0; j < count; j++) {
            direction[j] = random_at(5, j) & 1 ? 1 : -1;
            along += direction[j] * (double)gradient[j];
            sum += fabs((double)gradient[j]);
        }
        double expected = difference(&reference, &trial, i, direction);
        cr_assert(fabs(along - expected) <= 1e-5 * sum, "%s: %.9g along a direction, not %.9g", name, along, expected);
        free(direction);
    }
    reference_free(&reference, model);
    trial_free(&trial);
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
    struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    trial.tokens[ODD_SEQUENCES * 6 - 1] = 11;
    cr_assert(model_forward(trial.run, 0, &trial.batch, (const void *const *)trial.params, NULL) == ERR_USAGE);
    cr_assert(strstr(err_message(), "token 11"), "%s", err_message());
    trial_free(&trial);
    gpt_free(model);
}

Test(gpt, an_impossible_shape_is_refused)
{
    const struct gpt_shape bad[] = {{1, 10, 3, 4, 5, 1, 1, {0}},    {1, 0, 1, 4, 5, 1, 1, {0}},
                                    {1, 4, 0, 4, 5, 1, 1, {0}},     {1, 4, 2, 0, 5, 1, 1, {0}},
                                    {0, 4, 2, 4, 5, 1, 1, {0}},     {1, 4, 2, 4, 0, 1, 1, {0}},
                                    {1, 4, 2, 4, 70000, 1, 1, {0}}, {1, 4, 2, 4, 5, 0, 1, {0}},
                                    {1, 4, 2, 4, 5, 3, 1, {0}},     {1, 4, 2, 4, 5, 32, 1, {0}}};
    struct model *model;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(gpt_make("bad", &bad[i], &model) == ERR_USAGE, "shape %zu", i);
}

// Plain Adam, 60 steps on the text of the licence. 5.55 is the loss of 256 equally likely bytes: ln 256.
Test(gpt, loss_falls_on_text)
{
    const struct model *model;
    cr_assert(model_find("gpt-nano", &model) == ERR_NONE);
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
