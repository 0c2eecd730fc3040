// SPDX-License-Identifier: Apache-2.0
// For tests of the GPT: an independent loss in double, in textbook loops, which shares only the order of parameters
// with the model; and what the model must agree with it about.
#pragma once

#include "ref/model/gpt_pass.h"
#include "ref/model/gpt_test.h"

struct reference {
    const struct gpt_shape *shape;  // of a GPT
    double **params;
    double x[ODD_SEQUENCES][8][32];  // sequence, position, channel
    int dropped;                     // choices of tokens that found no slot, in the last loss
    double auxiliary;                // the loss that balances experts, in addition to the last loss
};

// A model's loss by these parameters.
typedef double reference_function(struct reference *r, const struct model *model, const struct model_batch *batch);

static inline void reference_norm(const double *in, size_t width, const double *weight, const double *bias, double *out)
{
    double mean = 0, variance = 0;
    for (size_t j = 0; j < width; j++)
        mean += in[j] / (double)width;
    for (size_t j = 0; j < width; j++)
        variance += (in[j] - mean) * (in[j] - mean) / (double)width;
    for (size_t j = 0; j < width; j++)
        out[j] = (in[j] - mean) / sqrt(variance + 1e-5) * weight[j] + bias[j];
}

static inline void reference_linear(const double *in, size_t in_width, const double *weight, const double *bias,
                                    size_t out_width, double *out)
{
    for (size_t j = 0; j < out_width; j++) {
        out[j] = bias[j];
        for (size_t i = 0; i < in_width; i++)
            out[j] += in[i] * weight[i * out_width + j];
    }
}

static inline void reference_attention(struct reference *r, size_t s, double **p)
{
    size_t width = r->shape->width, heads = r->shape->head_count, head_width = width / heads;
    double normed[32], qkv[8][96], mixed[32], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[s][t], width, p[0], p[1], normed);
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
            r->x[s][t][j] += out[j];
    }
}

// p: the four parameters of an MLP.
static inline void reference_hidden(const struct reference *r, const double *normed, double **p, double *out)
{
    size_t width = r->shape->width;
    double hidden[128];
    reference_linear(normed, width, p[0], p[1], 4 * width, hidden);
    for (size_t j = 0; j < 4 * width; j++) {
        double x = hidden[j];
        hidden[j] = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    }
    reference_linear(hidden, 4 * width, p[2], p[3], width, out);
}

static inline void reference_mlp(struct reference *r, size_t s, double **p)
{
    size_t width = r->shape->width;
    double normed[32], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[s][t], width, p[6], p[7], normed);
        reference_hidden(r, normed, p + 8, out);
        for (size_t j = 0; j < width; j++)
            r->x[s][t][j] += out[j];
    }
}

// One choice of every token in turn: the expert with the largest probability, or with the second largest.
static inline void reference_choice(struct reference *r, size_t choice, double **p, double x[][8][32], size_t used[])
{
    const struct gpt_experts *experts = &r->shape->experts;
    size_t width = r->shape->width, rows = ODD_SEQUENCES * r->shape->sequence_length;
    double mean[8] = {0}, first[8] = {0}, count = (double)rows;
    double most = (double)experts->capacity_thousandths / 1000 * (double)(experts->top * rows) / (double)experts->count;
    for (size_t row = 0; row < rows; row++) {
        size_t s = row / r->shape->sequence_length, t = row % r->shape->sequence_length, best[2] = {0, 0};
        double normed[32], probability[8], out[32], zero[8] = {0}, sum = 0;
        reference_norm(x[s][t], width, p[6], p[7], normed);
        reference_linear(normed, width, p[8], zero, experts->count, probability);
        for (size_t e = 0; e < experts->count; e++)
            sum += probability[e] = exp(probability[e]);
        for (size_t e = 0; e < experts->count; e++)
            best[0] = probability[e] > probability[best[0]] ? e : best[0];
        best[1] = best[0] == 0 ? 1 : 0;
        for (size_t e = 0; e < experts->count; e++)
            best[1] = e != best[0] && probability[e] > probability[best[1]] ? e : best[1];
        for (size_t e = 0; e < experts->count; e++)
            mean[e] += probability[e] / sum / count;
        first[best[0]] += 1 / count;
        double whole = experts->top == 1 ? sum : probability[best[0]] + probability[best[1]];
        if ((double)used[best[choice]]++ >= most - 1e-9) {
            r->dropped++;
            continue;
        }
        reference_hidden(r, normed, p + 9 + 4 * best[choice], out);
        for (size_t j = 0; j < width; j++)
            r->x[s][t][j] += probability[best[choice]] / whole * out[j];
    }
    for (size_t e = 0; e < experts->count && choice == 0; e++)
        r->auxiliary += (double)experts->aux_loss_thousandths / 1000 * (double)experts->count * first[e] * mean[e];
}

static inline void reference_experts(struct reference *r, double **p)
{
    double x[ODD_SEQUENCES][8][32];
    size_t used[8] = {0};
    memcpy(x, r->x, sizeof x);
    for (size_t choice = 0; choice < r->shape->experts.top; choice++)
        reference_choice(r, choice, p, x, used);
}

static inline double reference_loss(struct reference *r, const struct model *model, const struct model_batch *batch)
{
    r->shape = model->shape;
    size_t width = r->shape->width, length = r->shape->sequence_length, in_block = (size_t)gpt_block_params(r->shape);
    double loss = 0, **last = r->params + 2 + in_block * r->shape->block_count;
    r->dropped = 0;
    r->auxiliary = 0;
    for (size_t s = 0; s < ODD_SEQUENCES; s++)
        for (size_t t = 0; t < length; t++)
            for (size_t j = 0; j < width; j++)
                r->x[s][t][j] =
                    r->params[0][batch->tokens[s * (length + 1) + t] * width + j] + r->params[1][t * width + j];
    for (double **p = r->params + 2; p < last; p += in_block) {
        for (size_t s = 0; s < ODD_SEQUENCES; s++)
            reference_attention(r, s, p);
        for (size_t s = 0; s < ODD_SEQUENCES && r->shape->experts.count == 0; s++)
            reference_mlp(r, s, p);
        if (r->shape->experts.count > 0)
            reference_experts(r, p);
    }
    for (size_t s = 0; s < ODD_SEQUENCES; s++)
        for (size_t t = 0; t < length; t++) {
            double normed[32], sum = 0, right = 0;
            reference_norm(r->x[s][t], width, last[0], last[1], normed);
            for (size_t v = 0; v < r->shape->vocabulary; v++) {
                double logit = 0;
                for (size_t j = 0; j < width; j++)
                    logit += normed[j] * r->params[0][v * width + j];
                sum += exp(logit);
                right = v == batch->tokens[s * (length + 1) + t + 1] ? logit : right;
            }
            loss += (log(sum) - right) / (double)(length * ODD_SEQUENCES);
        }
    return loss;
}

static inline struct reference reference_make(const struct trial *trial)
{
    struct reference r = {0};
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
static inline double difference(struct reference *r, reference_function *loss_of, const struct trial *trial, int param,
                                const double *direction)
{
    const double h = 1e-4;
    size_t count = trial->model->params[param].count;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (size_t j = 0; j < count; j++)
            r->params[param][j] = (double)trial->values[param][j] + (side ? -h : h) * direction[j];
        loss[side] = loss_of(r, trial->model, &trial->batch) + r->auxiliary;
    }
    for (size_t j = 0; j < count; j++)
        r->params[param][j] = (double)trial->values[param][j];
    return (loss[0] - loss[1]) / (2 * h);
}

static inline void reference_free(struct reference *r, const struct model *model)
{
    for (int i = 0; i < model->param_count; i++)
        free(r->params[i]);
    free(r->params);
}

// Returns the choices of tokens that found no slot.
static inline int cr_loss(const struct model *model, reference_function *loss_of)
{
    struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    struct reference reference = reference_make(&trial);
    trial_forward(&trial);
    double expected = loss_of(&reference, model, &trial.batch);
    cr_assert(fabs(model_loss(trial.run) - expected) < 2e-6 * expected, "%.9f, not %.9f", model_loss(trial.run),
              expected);
    reference_free(&reference, model);
    trial_free(&trial);
    return reference.dropped;
}

// Every gradient against central differences of the independent loss. Some tensors may have none, such as those of an
// expert that no token goes to.
static inline void cr_gradients(const struct model *model, reference_function *loss_of)
{
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
            double expected = difference(&reference, loss_of, &trial, i, direction);
            direction[j] = 0;
            cr_assert(fabs(gradient[j] - expected) <= 1e-4 * fabs(expected) + 1e-5 * largest, "%s[%zu]: %.9g, not %.9g",
                      name, j, (double)gradient[j], expected);
        }
        // And all elements together with random signs: an error in any of them shows.
        for (size_t j = 0; j < count; j++) {
            direction[j] = random_at(5, j) & 1 ? 1 : -1;
            along += direction[j] * (double)gradient[j];
            sum += fabs((double)gradient[j]);
        }
        double expected = difference(&reference, loss_of, &trial, i, direction);
        cr_assert(fabs(along - expected) <= 1e-5 * sum, "%s: %.9g along a direction, not %.9g", name, along, expected);
        free(direction);
    }
    reference_free(&reference, model);
    trial_free(&trial);
}
