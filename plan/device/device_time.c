// SPDX-License-Identifier: Apache-2.0
#include "plan/device/device_time.h"

#include <math.h>

// Passes over the logits, in bytes each: conversion to fp32, log-softmax, its gradient, and conversion back.
enum { LOGIT_PASSES_BYTES = (2 + 4) + (4 + 4) + (4 + 4) + (4 + 2) };

struct timing {
    const struct device_rates *rates;
    double rows, element_bytes;
};

// [rows x inner] times [inner x columns], `matrices` of them, over which the rows are spread.
static double product_s(const struct timing *t, double rows, double inner, double columns, double matrices)
{
    double bytes = t->element_bytes * (rows * (inner + columns) + matrices * inner * columns);
    return 2 * rows * inner * columns / t->rates->product_flops_per_s + bytes / t->rates->memory_bytes_per_s;
}

static double attention_products_s(const struct timing *t, const struct transformer *m)
{
    double width = (double)m->width, query = (double)m->query_width, both = (double)(m->key_width + m->value_width);
    double output = product_s(t, t->rows, (double)m->output_width, width, 1);
    if (m->key_latent == 0)
        return product_s(t, t->rows, width, query + both, 1) + output;
    double latent = (double)m->query_latent, from = latent > 0 ? latent : width;
    return product_s(t, t->rows, width, latent + (double)m->key_latent, 1) + product_s(t, t->rows, from, query, 1) +
           product_s(t, t->rows, (double)m->key_latent, both, 1) + output;
}

static double products_s(const struct timing *t, const struct transformer *m)
{
    double width = (double)m->width, hidden = (double)m->hidden, shared = (double)m->shared_hidden;
    double own = m->expert_ranks > 1 ? (double)m->expert_ranks : 1, rows = t->rows / own * (double)m->experts_used;
    double experts = (double)m->experts;
    double router_s = m->experts > 1 ? product_s(t, t->rows / own, width, experts, 1) : 0;
    double shared_s = shared > 0 ? (double)m->mlp_matrices * product_s(t, t->rows, width, shared, 1) : 0;
    return attention_products_s(t, m) + (double)(m->mlp_matrices - 1) * product_s(t, rows, width, hidden, experts) +
           product_s(t, rows, hidden, width, experts) + shared_s + router_s;
}

// Norms read and write the width, residual sums read it twice and write it, and the activation function reads and
// writes the hidden values. The tokens of experts are put in the order of ranks and of experts, and back again: each
// time they are read and written (Megatron-LM, core/transformer/moe/token_dispatcher.py).
static double passes_s(const struct timing *t, const struct transformer *m)
{
    double ranks = m->sequence_ranks > 1 ? (double)m->sequence_ranks : 1;  // each has its part of the tokens
    double own = m->expert_ranks > 1 ? (double)m->expert_ranks : 1;        // and of those of experts
    double values = (2 * 2 * (double)m->width + 2 * 3 * (double)m->width) / ranks +
                    (double)(m->mlp_matrices * (transformer_expert_values(m) + m->shared_hidden)) +
                    (m->experts_used > 1 ? 4 * 2 * (double)(m->experts_used * m->width) / own : 0);
    return t->rows * values * t->element_bytes / t->rates->memory_bytes_per_s;
}

// Flash attention computes two products of the causal half forward, and five backward (Dao, arXiv 2307.08691).
static double attention_s(const struct timing *t, const struct transformer *m)
{
    return t->rows * m->attended_length * (double)(m->query_width + m->output_width) / t->rates->attention_flops_per_s;
}

// The time that a ring of keys and values takes longer than the attention, part by part, that hides it. Backward, whose
// attention takes 2.5 times as long, sends their gradients, too.
static double ring_s(const struct timing *t, const struct transformer *m, double attention, double times)
{
    double others = (double)m->context_ranks - 1, bytes = t->rows * (double)(m->key_width + m->value_width) * times;
    if (others <= 0)
        return 0;
    double step_s = bytes * t->element_bytes / t->rates->ring_bytes_per_s + t->rates->ring_latency_s;
    return others * fmax(0, step_s - attention / (others + 1));
}

void device_time_of(const struct transformer *m, const struct device_rates *rates, size_t sequence_count,
                    size_t element_bytes, struct device_time *out)
{
    const struct timing t = {rates, (double)(sequence_count * m->sequence_length), (double)element_bytes};
    double blocks = (double)m->blocks, products = products_s(&t, m), passes = passes_s(&t, m);
    double attention = attention_s(&t, m), fixed = rates->layer_s;
    double head = product_s(&t, t.rows, (double)m->width, (double)m->vocabulary, 1);
    double logits = t.rows * (double)m->vocabulary * LOGIT_PASSES_BYTES / rates->memory_bytes_per_s;
    double forward = products + passes + attention + fixed + ring_s(&t, m, attention, 1);
    out->forward_s = blocks * forward + head + logits / 2;
    // A product's backward is one for its input's gradient, and one for its weight's.
    double backward = m->is_frozen ? 1 : 2;
    out->backward_s =
        blocks * (backward * products + 2 * passes + 2.5 * attention + 2 * fixed + ring_s(&t, m, 2.5 * attention, 2)) +
        backward * head + logits / 2;
    out->recomputed_s = blocks * forward;
}
