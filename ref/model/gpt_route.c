// SPDX-License-Identifier: Apache-2.0
#include "ref/model/gpt_route.h"

#include "ref/arithmetic/gpt_math.h"

#include <string.h>

static void softmax(const float *logits, size_t count, float *out)
{
    float largest = logits[0], sum = 0.0f;
    for (size_t i = 1; i < count; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < count; i++) {
        out[i] = exp_within(logits[i] - largest);
        sum += out[i];
    }
    for (size_t i = 0; i < count; i++)
        out[i] /= sum;
}

// The lowest index of the largest probability; `taken` is not considered.
static size_t largest_of(const float *probabilities, size_t count, size_t taken)
{
    size_t best = taken == 0 ? 1 : 0;
    for (size_t i = best + 1; i < count; i++)
        if (i != taken && probabilities[i] > probabilities[best])
            best = i;
    return best;
}

static size_t expert_of(const struct gpt_routes *routes, size_t row, size_t choice)
{
    int32_t slot = routes->slots[row * routes->top + choice];
    return slot < 0 ? (size_t)(-1 - slot) : (size_t)slot / routes->slot_count;
}

static void take_slots(const struct gpt_routes *routes)
{
    size_t used[routes->expert_count], count = routes->expert_count;
    memset(used, 0, sizeof used);
    for (size_t choice = 0; choice < routes->top; choice++)
        for (size_t row = 0; row < routes->rows; row++) {
            size_t taken = choice == 0 ? count : expert_of(routes, row, 0);
            size_t expert = largest_of(routes->probabilities + row * count, count, taken), position = used[expert]++;
            routes->slots[row * routes->top + choice] = position < routes->slot_count
                                                            ? (int32_t)(expert * routes->slot_count + position)
                                                            : -1 - (int32_t)expert;
        }
}

// The weights of a token's choices, dropped ones included.
static void weights_of(const struct gpt_routes *routes, size_t row, float weights[ROUTE_TOP_MAX])
{
    const float *p = routes->probabilities + row * routes->expert_count;
    float first = p[expert_of(routes, row, 0)];
    weights[0] = first;
    if (routes->top == 1)
        return;
    float second = p[expert_of(routes, row, 1)], sum = first + second;
    weights[0] = first / sum;
    weights[1] = second / sum;
}

void gpt_route(const struct gpt_routes *routes, const float *logits)
{
    float weights[ROUTE_TOP_MAX];
    for (size_t row = 0; row < routes->rows; row++)
        softmax(logits + row * routes->expert_count, routes->expert_count,
                routes->probabilities + row * routes->expert_count);
    take_slots(routes);
    for (size_t row = 0; row < routes->rows; row++) {
        weights_of(routes, row, weights);
        for (size_t choice = 0; choice < routes->top; choice++) {
            size_t at = row * routes->top + choice;
            routes->gates[at] = routes->slots[at] < 0 ? 0.0f : weights[choice];
        }
    }
}

// top 1: dz_j = d p (1 - p) for the expert itself and -d p p_j for the others. top 2: with w2 = 1 - w1 and w1 the
// logistic function of z1 - z2, dz1 = w1 w2 (d1 - d2) = -dz2.
void gpt_route_back(const struct gpt_routes *routes, const float *gate_gradients, float *logit_gradients)
{
    size_t count = routes->expert_count;
    for (size_t row = 0; row < routes->rows; row++) {
        const float *p = routes->probabilities + row * count, *d = gate_gradients + row * routes->top;
        float *out = logit_gradients + row * count, weights[ROUTE_TOP_MAX];
        size_t first = expert_of(routes, row, 0);
        weights_of(routes, row, weights);
        for (size_t j = 0; j < count; j++)
            out[j] = routes->top == 1 ? d[0] * weights[0] * ((j == first ? 1.0f : 0.0f) - p[j]) : 0.0f;
        if (routes->top == 1)
            continue;
        out[first] = weights[0] * weights[1] * (d[0] - d[1]);
        out[expert_of(routes, row, 1)] = -out[first];
    }
}

// With d_i = a E f_i / T the gradient of p_i, dz_j = p_j (d_j - the sum over i of d_i p_i).
void gpt_route_balance(const struct gpt_routes *routes, float scaled_coefficient, float *logit_gradients)
{
    size_t count = routes->expert_count;
    float gradients[count], rows = (float)routes->rows;
    memset(gradients, 0, sizeof gradients);
    for (size_t row = 0; row < routes->rows; row++)
        gradients[expert_of(routes, row, 0)] += 1.0f;
    for (size_t i = 0; i < count; i++)
        gradients[i] = scaled_coefficient * (float)count * (gradients[i] / rows) / rows;
    for (size_t row = 0; row < routes->rows; row++) {
        const float *p = routes->probabilities + row * count;
        float *out = logit_gradients + row * count, mean = 0.0f;
        for (size_t i = 0; i < count; i++)
            mean += gradients[i] * p[i];
        for (size_t j = 0; j < count; j++)
            out[j] += p[j] * (gradients[j] - mean);
    }
}
