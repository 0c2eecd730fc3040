// SPDX-License-Identifier: Apache-2.0
// A mixture of experts in the place of a block's MLP (gpt_route.h has the router):
//
//   out = x2 + the sum over a token's experts of gate x (o + gelu(u F + f) O),  u = ln_2(x2)
//
// The tokens of one micro-batch lie in slots, [expert][position], and an empty slot is a token of zeros without
// gradient. With expert parallelism a rank holds some of the experts, and an exchange (an all-to-all within the expert
// group) takes slots to the experts and back, in forward and in backward. An expert multiplies the slots of each source
// rank by themselves, so that an answer, and a source's gradient of the expert's parameters, has the bits that the
// source would compute itself. The gradient is the sum over sources: each rounded to the run's dtype, ranks ascending,
// a left fold in fp32, one rounding.
//
// Tensor parallelism cuts every expert as it cuts an MLP: its ranks route the same tokens alike, and sum the partial
// products of their blocks of an expert's hidden channels (gpt_cut.c).
#include "ref/model/gpt_cut.h"
#include "ref/model/gpt_pass.h"
#include "ref/model/gpt_route.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/comm/comm.h"

#include <assert.h>
#include <string.h>

size_t gpt_expert_slots(const struct gpt_shape *shape, size_t rows)
{
    const struct gpt_experts *experts = &shape->experts;
    if (experts->count == 0)
        return 0;
    size_t whole = 1000 * experts->count;
    size_t slots = (experts->capacity_thousandths * experts->top * rows + whole - 1) / whole;
    return slots < rows ? slots : rows;
}

size_t gpt_experts_held(const struct model *model)
{
    return (size_t)model->expert_count / (model->part ? (size_t)model->part->place.expert_parts : 1);
}

size_t gpt_token_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct gpt_shape *shape = model->shape;
    if (gpt_layer_of(model, layer).kind != GPT_BLOCK)
        return 0;
    size_t slots = gpt_expert_slots(shape, sequence_count * shape->sequence_length);
    return gpt_experts_held(model) * slots * shape->width * sizeof(float);
}

static size_t slot_count(const struct gpt_pass *pass)
{
    return gpt_expert_slots(pass->shape, pass->rows);
}

// Elements of all slots of a micro-batch.
static size_t slots_width(const struct gpt_pass *pass)
{
    return pass->shape->experts.count * slot_count(pass) * pass->width;
}

static struct gpt_routes routes_of(const struct gpt_pass *pass)
{
    const struct gpt_experts *experts = &pass->shape->experts;
    return (struct gpt_routes){.rows = pass->rows,
                               .expert_count = experts->count,
                               .top = experts->top,
                               .slot_count = slot_count(pass),
                               .probabilities = pass->kept + pass->at.probabilities,
                               .gates = pass->kept + pass->at.gates,
                               .slots = (int32_t *)(pass->kept + pass->at.slots)};
}

static int source_count(const struct gpt_pass *pass)
{
    return pass->run->expert_comm ? comm_world(pass->run->expert_comm) : 1;
}

// Slots of all experts to the ranks that hold them, or back: [rank][held expert][position] at both ends.
static int exchange(const struct gpt_pass *pass, const float *send, float *receive)
{
    int ranks = source_count(pass);
    size_t counts[ranks], offsets[ranks], all = slots_width(pass);
    assert((size_t)ranks * gpt_experts_held(pass->run->model) == pass->shape->experts.count);
    if (ranks == 1)
        return bytes_copy(receive, send, all * sizeof *send);
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = all / (size_t)ranks;
        offsets[rank] = (size_t)rank * counts[rank];
    }
    return comm_all_to_all(pass->run->expert_comm, send, counts, offsets, receive, counts, offsets, DTYPE_FP32);
}

// An expert's slots of one source rank, as rows of a pass of its own.
struct expert_rows {
    struct gpt_pass pass;
    size_t first_row;  // among those of all sources
    int fc_weight;     // index of its first parameter
    int source;
};

static struct expert_rows rows_of(const struct gpt_pass *pass, int expert, int source)
{
    struct expert_rows rows = {.pass = *pass, .source = source};
    rows.pass.rows = rows.pass.stream_rows = slot_count(pass);
    rows.pass.sequence_parallel = false;
    rows.first_row = ((size_t)source * gpt_experts_held(pass->run->model) + (size_t)expert) * rows.pass.rows;
    rows.fc_weight = ROUTER_WEIGHT + 1 + expert * EXPERT_PARAMS;
    return rows;
}

static int index_of(const struct expert_rows *rows, int role)
{
    return rows->fc_weight + role - FC_WEIGHT;
}

static void route(const struct gpt_pass *pass)
{
    const struct gpt_routes routes = routes_of(pass);
    float *logits = pass->memory + pass->at.logit_gradients;
    pass_multiply(pass, ROUTER_WEIGHT, pass->normed, pass->width,
                  (struct gpt_result){.data = logits, .width = routes.expert_count});
    gpt_route(&routes, logits);
}

static void send_tokens(const struct gpt_pass *pass, float *sent)
{
    const struct gpt_routes routes = routes_of(pass);
    size_t width = pass->width;
    memset(sent, 0, slots_width(pass) * sizeof *sent);
    for (size_t i = 0; i < routes.rows * routes.top; i++)
        if (routes.slots[i] >= 0)
            memcpy(sent + (size_t)routes.slots[i] * width, pass->normed + i / routes.top * width, width * sizeof *sent);
}

static void answer(const struct expert_rows *rows, float *answers)
{
    const struct gpt_pass *pass = &rows->pass;
    size_t width = pass->width, wide = pass->tile_width;
    const float *in = pass->kept + pass->at.received + rows->first_row * width;
    float *fc = pass->fc + rows->first_row * wide, *hidden = pass->memory + pass->at.wide_1;
    float *out = answers + rows->first_row * width;
    pass_multiply(pass, index_of(rows, FC_WEIGHT), in, width,
                  (struct gpt_result){.data = fc, .width = wide, .is_operand = true});
    gelu_forward(pass->rows, wide, fc, pass->dtype, pass->weights[index_of(rows, FC_BIAS)], hidden);
    bias_rows(pass->rows, width, pass->dtype, pass->weights[index_of(rows, OUT_BIAS)], out);
    pass_multiply(pass, index_of(rows, OUT_WEIGHT), hidden, wide,
                  (struct gpt_result){.data = out, .width = width, .add = true});
}

int gpt_experts_activations(const struct gpt_pass *pass)
{
    float *sent = pass->memory + pass->at.sent, *returned = pass->memory + pass->at.returned;
    route(pass);
    send_tokens(pass, sent);
    TRY(exchange(pass, sent, pass->kept + pass->at.received));
    for (int expert = 0; expert < (int)gpt_experts_held(pass->run->model); expert++)
        for (int source = 0; source < source_count(pass); source++) {
            struct expert_rows rows = rows_of(pass, expert, source);
            answer(&rows, returned);
        }
    return exchange(pass, returned, pass->kept + pass->at.answers);
}

void gpt_experts_output(const struct gpt_pass *pass, float *out)
{
    const struct gpt_routes routes = routes_of(pass);
    const float *answers = pass->kept + pass->at.answers;
    size_t width = pass->width;
    memcpy(out, pass->kept + pass->at.middle, pass->stream_rows * width * sizeof *out);
    for (size_t k = 0; k < pass->stream_rows * routes.top; k++) {
        size_t i = pass_token_row(pass, k / routes.top) * routes.top + k % routes.top;
        if (routes.slots[i] < 0)
            continue;
        const float *from = answers + (size_t)routes.slots[i] * width;
        float *to = out + k / routes.top * width;
        for (size_t j = 0; j < width; j++)
            to[j] += routes.gates[i] * from[j];
    }
}

// The gradients of the answers, as operands, and of the gates.
static void send_gradients(const struct gpt_pass *pass, float *sent)
{
    const struct gpt_routes routes = routes_of(pass);
    const float *stream = pass_all_rows(pass, pass->memory + pass->at.gradient, pass->memory + pass->at.all_rows);
    const float *answers = pass->kept + pass->at.answers;
    float *gate_gradients = pass->memory + pass->at.gate_gradients;
    size_t width = pass->width;
    memset(sent, 0, slots_width(pass) * sizeof *sent);
    for (size_t i = 0; i < routes.rows * routes.top; i++) {
        gate_gradients[i] = 0.0f;
        if (routes.slots[i] < 0)
            continue;
        const float *row = stream + i / routes.top * width, *from = answers + (size_t)routes.slots[i] * width;
        float *to = sent + (size_t)routes.slots[i] * width;
        for (size_t j = 0; j < width; j++) {
            gate_gradients[i] += row[j] * from[j];
            to[j] = routes.gates[i] * row[j];
        }
    }
    operand_round(pass->dtype, slots_width(pass), sent, sent);
}

// Adds a source's finished gradient of a parameter to the sum over sources.
static void add_source(const struct expert_rows *rows, int role, size_t count, float *gradient)
{
    const struct gpt_pass *pass = &rows->pass;
    size_t width = pass->width, wide = pass->tile_width;
    const size_t offsets[EXPERT_PARAMS] = {0, width * wide, (width + 1) * wide, (2 * width + 1) * wide};
    float *sum = pass->memory + pass->at.expert_sum + offsets[role - FC_WEIGHT];
    operand_round(pass->dtype, count, gradient, gradient);
    for (size_t i = 0; i < count; i++)
        sum[i] = rows->source == 0 ? gradient[i] : sum[i] + gradient[i];
    if (rows->source + 1 == source_count(pass))
        pass_hand_over(pass, index_of(rows, role), sum);
}

static void add_products(const struct expert_rows *rows, int weight, const float *in, size_t in_width,
                         const float *out_gradient, size_t out_width)
{
    const struct gpt_pass *pass = &rows->pass;
    float *product = pass->memory + pass->at.weight_gradient, *vector = pass->memory + pass->at.vectors;
    if (!pass_wants(pass, index_of(rows, weight)))
        return;
    pass_weight_gradient_into(pass, index_of(rows, weight), in, in_width, out_gradient, out_width, product);
    add_source(rows, weight, in_width * out_width, product);
    rows_sum(pass->rows, out_width, pass->dtype, out_gradient, vector, NULL);
    add_source(rows, weight + 1, out_width, vector);
}

// From the gradient of an expert's answers to that of its input.
static void answer_back(const struct expert_rows *rows, const float *answer_gradients, float *in_gradients)
{
    const struct gpt_pass *pass = &rows->pass;
    size_t width = pass->width, wide = pass->tile_width;
    const float *in = pass->kept + pass->at.received + rows->first_row * width;
    const float *stream = answer_gradients + rows->first_row * width, *fc = pass->fc + rows->first_row * wide;
    float *hidden = pass->memory + pass->at.wide_1, *gradient = pass->memory + pass->at.wide_2;
    pass_multiply_back(pass, index_of(rows, OUT_WEIGHT), stream, width,
                       (struct gpt_result){.data = gradient, .width = wide, .is_operand = true});
    gelu_backward(pass->rows, wide, fc, gradient, pass->dtype, pass->weights[index_of(rows, FC_BIAS)], hidden, gradient,
                  NULL, NULL);
    add_products(rows, OUT_WEIGHT, hidden, wide, stream, width);
    add_products(rows, FC_WEIGHT, in, width, gradient, wide);
    pass_multiply_back(pass, index_of(rows, FC_WEIGHT), gradient, wide,
                       (struct gpt_result){.data = in_gradients + rows->first_row * width, .width = width});
}

// The gradient of the MLP's input: by way of the experts, and then of the router.
static void receive_gradients(const struct gpt_pass *pass, const float *returned)
{
    const struct gpt_routes routes = routes_of(pass);
    float *normed_gradient = pass->memory + pass->at.normed_gradient;
    float *logit_gradients = pass->memory + pass->at.logit_gradients;
    size_t width = pass->width;
    memset(normed_gradient, 0, pass->rows * width * sizeof *normed_gradient);
    for (size_t i = 0; i < routes.rows * routes.top; i++) {
        if (routes.slots[i] < 0)
            continue;
        const float *from = returned + (size_t)routes.slots[i] * width;
        float *to = normed_gradient + i / routes.top * width;
        for (size_t j = 0; j < width; j++)
            to[j] += from[j];
    }
    gpt_route_back(&routes, pass->memory + pass->at.gate_gradients, logit_gradients);
    if (pass->shape->experts.aux_loss_thousandths > 0)
        gpt_route_balance(&routes, pass->loss_scale * (float)pass->shape->experts.aux_loss_thousandths / 1000.0f,
                          logit_gradients);
    operand_round(pass->dtype, routes.rows * routes.expert_count, logit_gradients, logit_gradients);
    pass_weight_gradient(pass, ROUTER_WEIGHT, pass->normed, width, logit_gradients, routes.expert_count);
    pass_multiply_back(pass, ROUTER_WEIGHT, logit_gradients, routes.expert_count,
                       (struct gpt_result){.data = normed_gradient, .width = width, .add = true});
    const float *own = pass_own_rows(pass, normed_gradient, width);
    operand_round(pass->dtype, pass->stream_rows * width, own, normed_gradient);
}

int gpt_experts_gradients(const struct gpt_pass *pass)
{
    float *sent = pass->memory + pass->at.sent, *returned = pass->memory + pass->at.returned;
    send_gradients(pass, sent);
    TRY(exchange(pass, sent, returned));
    for (int expert = 0; expert < (int)gpt_experts_held(pass->run->model); expert++)
        for (int source = 0; source < source_count(pass); source++) {
            struct expert_rows rows = rows_of(pass, expert, source);
            answer_back(&rows, returned, sent);
        }
    TRY(exchange(pass, sent, returned));
    receive_gradients(pass, returned);
    return ERR_NONE;
}
