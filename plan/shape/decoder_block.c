// SPDX-License-Identifier: Apache-2.0
// A block is x2 = x + wo(attention(wq(n), wk(n), wv(n))), n = norm(x); x' = x2 + down(silu(gate(m)) * up(m)),
// m = norm(x2); with experts, a router gives each token the MLPs of some of them. Or its mixer is a state space, its
// MLP has two matrices, both read one norm, or one of them is missing.
#include "plan/shape/decoder_internal.h"

#include <stdio.h>

static const struct decoder_role whole = {DECODER_WHOLE, 0}, rows_cut = {DECODER_CUT_ROWS, 0},
                                 columns_cut = {DECODER_CUT_COLUMNS, 0};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// A token of a window of w attends to w - w^2 / 2L keys on average over a sequence of L, and to L/2 without a window.
// One of chunks of w, to w/2. Twice that.
static double attended_length(const struct decoder_shape *s, const struct decoder_block *block)
{
    double length = (double)(s->sequence_length * s->context_ranks), window = (double)block->window;
    if (block->window == 0 || window >= length)
        return length;
    return block->is_chunk ? window : window * (2 - window / length);
}

static void add_mlp(struct decoder *decoder, int layer, const char *prefix, size_t hidden, bool biases, uint16_t expert)
{
    const struct decoder_shape *s = &decoder->shape;
    const struct decoder_role outputs = {DECODER_CUT_ROWS, expert}, inputs = {DECODER_CUT_COLUMNS, expert};
    char name[48];
    snprintf(name, sizeof name, "%sgate.weight", prefix);
    decoder_add_matrix(decoder, layer, name, s->mlp_matrices == 3 ? hidden : 0, s->width, outputs);
    snprintf(name, sizeof name, "%sup.weight", prefix);
    decoder_add_matrix(decoder, layer, name, hidden, s->width, outputs);
    snprintf(name, sizeof name, "%sdown.weight", prefix);
    decoder_add_matrix(decoder, layer, name, s->width, hidden, inputs);
    if (!biases)
        return;
    snprintf(name, sizeof name, "%sup.bias", prefix);
    decoder_add(decoder, layer, name, 0, (s->mlp_matrices - 1) * hidden, outputs);
    snprintf(name, sizeof name, "%sdown.bias", prefix);
    decoder_add(decoder, layer, name, 0, s->width, (struct decoder_role){DECODER_WHOLE, expert});
}

static void add_experts(struct decoder *decoder, int layer)
{
    const struct decoder_shape *s = &decoder->shape;
    struct decoder_work *work = &decoder->work[layer];
    decoder_add(decoder, layer, "router.weight", s->experts, s->width, whole);
    work->whole_elements += (double)s->experts * (double)s->width;
    work->whole_kept += s->experts;
    decoder_add(decoder, layer, "router.bias", 0, s->router_bias ? s->experts : 0, whole);
    decoder_add(decoder, layer, "shared.gate", 0, s->shared_gate ? s->width : 0, whole);
    if (s->shared_hidden > 0)
        add_mlp(decoder, layer, "shared.", s->shared_hidden, s->mlp_biases, 0);
    for (size_t expert = 0; expert < s->experts; expert++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "experts.%zu.", expert);
        add_mlp(decoder, layer, prefix, s->expert_hidden, s->expert_biases, (uint16_t)(expert + 1));
    }
}

// Projections to the latent vectors, which every rank has, their norms, and from there to all heads.
static void add_latents(struct decoder *decoder, int layer)
{
    const struct decoder_shape *s = &decoder->shape;
    size_t latents = s->key_latent + s->rope_width;
    if (s->query_latent > 0) {
        decoder_add_matrix(decoder, layer, "wq_a.weight", s->query_latent, s->width, whole);
        decoder_add(decoder, layer, "q_norm.weight", 0, s->query_latent, whole);
    }
    decoder_add_matrix(decoder, layer, "wq.weight", decoder_query_width(s),
                       s->query_latent > 0 ? s->query_latent : s->width, rows_cut);
    decoder_add_matrix(decoder, layer, "wkv_a.weight", latents, s->width, whole);
    decoder_add(decoder, layer, "kv_norm.weight", 0, s->key_latent, whole);
    decoder_add_matrix(decoder, layer, "wkv_b.weight", s->heads * (s->head_width + s->value_width), s->key_latent,
                       rows_cut);
    decoder_add(decoder, layer, "latents.bias", 0, s->latent_biases ? s->query_latent + latents : 0, whole);
    decoder->work[layer].whole_kept += s->query_latent + s->key_latent;
}

static void add_attention(struct decoder *decoder, int layer, const struct decoder_block *block)
{
    const struct decoder_shape *s = &decoder->shape;
    struct decoder_work *work = &decoder->work[layer];
    size_t query = decoder_query_width(s), key = decoder_key_width(s), value = decoder_value_width(s);
    size_t output = decoder_output_width(s), queries = s->gated_output ? query + output : query;
    if (s->key_latent > 0) {
        add_latents(decoder, layer);
    } else {
        decoder_add_matrix(decoder, layer, "wq.weight", queries, s->width, rows_cut);
        decoder_add_matrix(decoder, layer, "wk.weight", key, s->width, rows_cut);
        decoder_add_matrix(decoder, layer, "wv.weight", key, s->width, rows_cut);
    }
    decoder_add_matrix(decoder, layer, "wo.weight", s->width, output, columns_cut);
    decoder_add(decoder, layer, "qkv.bias", 0, s->key_biases ? queries + 2 * key : 0, rows_cut);
    decoder_add(decoder, layer, "wo.bias", 0, s->output_bias ? s->width : 0, whole);
    decoder_add(decoder, layer, "head_norms.weight", 0, s->head_norms, whole);
    decoder_add(decoder, layer, "sinks", 0, s->sinks ? s->heads : 0, rows_cut);
    work->attention = 2.0 * attended_length(s, block) * (double)(query + output);
    work->cut_kept += queries + key + value + output;
    work->widest = larger(work->widest, queries + key + value);
}

static void add_state(struct decoder *decoder, int layer)
{
    const struct decoder_state *s = &decoder->shape.state;
    struct decoder_work *work = &decoder->work[layer];
    size_t width = decoder->shape.width;
    decoder_add_matrix(decoder, layer, "state.in.weight", s->in_rows, width, rows_cut);
    decoder_add_matrix(decoder, layer, "state.x.weight", s->steps_rows, s->out_columns, columns_cut);
    decoder_add_matrix(decoder, layer, "state.steps.weight", s->out_columns, s->steps_columns, rows_cut);
    decoder_add_matrix(decoder, layer, "state.out.weight", width, s->out_columns, columns_cut);
    decoder_add(decoder, layer, "state.heads", 0, s->head_values, rows_cut);
    decoder_add(decoder, layer, "state.others", 0, s->other_values, whole);
    work->state = s->operations;
    work->cut_kept += s->in_rows + s->steps_rows + s->out_columns;
    work->widest = larger(work->widest, s->in_rows);
}

void decoder_add_block(struct decoder *decoder, size_t block)
{
    const struct decoder_shape *s = &decoder->shape;
    const struct decoder_block *b = &s->block[block];
    int layer = (int)block + 1;
    struct decoder_work *work = &decoder->work[layer];
    size_t hidden = 0;
    decoder_add(decoder, layer, "norm.weight", 0, s->block_norms > 0 ? s->norm_vectors * s->width : 0, whole);
    if (!b->has_no_attention)
        add_attention(decoder, layer, b);
    if (b->has_state)
        add_state(decoder, layer);
    if (s->block_norms > 1)
        decoder_add(decoder, layer, "norms.weight", 0, (s->block_norms - 1) * s->norm_vectors * s->width, whole);
    if (b->mlp == DECODER_MLP_EXPERTS) {
        hidden = s->expert_hidden * s->experts_used + s->shared_hidden;
        add_experts(decoder, layer);
    } else if (b->mlp == DECODER_MLP_DENSE) {
        hidden = s->hidden;
        add_mlp(decoder, layer, "", hidden, s->mlp_biases, 0);
        decoder_add(decoder, layer, "activation", 0, s->mlp_values, whole);
    }
    work->cut_kept += (s->mlp_matrices - 1) * hidden;
    work->whole_kept += 2;
    work->widest = larger(work->widest, hidden);
}
