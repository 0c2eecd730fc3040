// SPDX-License-Identifier: Apache-2.0
// A rank as a stage of a pipeline: activations and their gradients go to and arrive from the neighbouring stages, and a
// tied weight is kept equal at both ends. Without pipeline parallelism there is one stage, and nothing of this happens.
//
// The token embedding of a GPT is in the first stage, which uses it as a table, and in the last one, which uses it as
// the head. Its gradient is a sum of both uses, micro-batch by micro-batch, as without a pipeline: the last stage sends
// its part of each micro-batch's gradient to the first, where the embedding's backward adds its own. The first stage
// alone has the optimizer's states, counts the gradient in the norm and makes the update, and sends the updated weight
// to the last. (Megatron-LM sums the gradients of all micro-batches at both ends and updates both copies, which rounds
// in another order.)
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <stdlib.h>

// The kind of value that a message carries: the upper half of its tag; the micro-batch is the lower half.
enum { TAG_ACTIVATIONS, TAG_GRADIENTS, TAG_TIED_GRADIENT, TAG_TIED_WEIGHT };

struct message {
    struct comm *comm;
    int peer;
    bool sends;
    uint64_t tag;
    void *buffer;
    size_t bytes;
    enum ledger_purpose purpose;
};

static int run_message(void *arguments)
{
    const struct message *m = arguments;
    if (!m->sends)
        return comm_receive(m->comm, m->peer, m->tag, m->buffer, m->bytes);
    comm_count_as(m->comm, m->purpose);
    int rc = comm_send(m->comm, m->peer, m->tag, m->buffer, m->bytes);
    comm_count_as(m->comm, PURPOSE_OTHER);
    return rc;
}

static void count_message(const void *arguments)
{
    const struct message *m = arguments;
    if (m->sends)
        comm_count(m->comm, m->purpose, OPERATION_SEND, 1, m->bytes);
}

// The distance between ranks of neighbouring stages.
static int stage_stride(const struct mesh *mesh)
{
    return mesh->tensor * mesh_group_size(mesh, MESH_DATA);
}

static int issue(struct train_rank *rank, const char *name, uint64_t kind, int micro, struct message m)
{
    const struct executor_span span = {m.buffer, m.bytes, m.sends ? EXECUTOR_READ : EXECUTOR_WRITE};
    int stages = abs(m.peer - rank->pipeline.stage);
    m.comm = rank->pipeline_comm;
    m.tag = kind << 32 | (uint64_t)micro;
    return executor_issue(rank->executor, &(struct executor_operation){.name = name,
                                                                       .lane = LANE_COLLECTIVE,
                                                                       .run = run_message,
                                                                       .arguments = &m,
                                                                       .arguments_bytes = sizeof m,
                                                                       .spans = &span,
                                                                       .span_count = 1,
                                                                       .bytes = m.sends ? m.bytes : 0,
                                                                       .count = count_message,
                                                                       .work_bytes = m.bytes,
                                                                       .ranks = 2,
                                                                       .stride = stages * stage_stride(&rank->mesh)});
}

static bool is_first(const struct train_pipeline *p)
{
    return p->stage == 0;
}

static int last_of(const struct train_pipeline *p)
{
    return p->schedule.stage_count - 1;
}

static bool is_last(const struct train_pipeline *p)
{
    return p->stage == last_of(p);
}

void train_pipeline_place(struct train_rank *rank)
{
    const struct mesh *mesh = &rank->mesh;
    const struct config *config = rank->setting->config;
    rank->pipeline = (struct train_pipeline){
        .schedule = {config->pipeline_schedule, mesh->pipeline, (int)config->accumulation},
        .stage = mesh_index_in(mesh, MESH_PIPELINE, rank->rank),
        .tied = -1,
    };
}

// The last stage finds the copies among its parameters; the first one has the same whole parameter.
static void find_tied(struct train_rank *rank)
{
    struct train_pipeline *p = &rank->pipeline;
    const struct model *whole = rank->setting->model;
    for (int i = 0; i < rank->model->param_count; i++) {
        int param = rank->part->slices[i].param;
        // Its uses are not all here.
        if (!whole->params[param].frozen && rank->model->params[i].layer_count < whole->params[param].layer_count) {
            p->tied = i;
            p->tied_bytes = rank->model->params[i].count * dtype_bytes(rank->setting->config->precision);
        }
    }
}

int train_pipeline_open(struct train_rank *rank)
{
    struct train_pipeline *p = &rank->pipeline;
    if (p->schedule.stage_count == 1)
        return ERR_NONE;
    find_tied(rank);
    if (!is_last(p) || p->tied < 0)
        return ERR_NONE;
    TRY(tier_allocate(rank->tier, TIER_DEVICE, KIND_STAGING, "gradient of a tied weight", p->tied_bytes, 0,
                      &p->tied_gradient));
    // The copy is frozen for the stage of ZeRO, which leaves its gradient alone.
    rank->stage.gradients[p->tied] = (struct model_gradient){.data = p->tied_gradient};
    return ERR_NONE;
}

static int send_or_receive(struct train_rank *rank, struct pipeline_action action)
{
    const struct train_pipeline *p = &rank->pipeline;
    struct model_border border;
    model_run_border(rank->runs[action.micro % rank->run_count], &border);
    switch (action.verb) {
    case PIPELINE_RECEIVE_ACTIVATIONS:
        return issue(rank, "receive activations", TAG_ACTIVATIONS, action.micro,
                     (struct message){.peer = p->stage - 1, .buffer = border.input, .bytes = border.bytes});
    case PIPELINE_SEND_ACTIVATIONS:
        return issue(
            rank, "send activations", TAG_ACTIVATIONS, action.micro,
            (struct message){.peer = p->stage + 1, .sends = true, .buffer = border.output, .bytes = border.bytes});
    case PIPELINE_RECEIVE_GRADIENTS:
        return issue(rank, "receive gradients", TAG_GRADIENTS, action.micro,
                     (struct message){.peer = p->stage + 1, .buffer = border.gradient, .bytes = border.bytes});
    case PIPELINE_SEND_GRADIENTS:
        return issue(
            rank, "send gradients", TAG_GRADIENTS, action.micro,
            (struct message){.peer = p->stage - 1, .sends = true, .buffer = border.gradient, .bytes = border.bytes});
    default:
        return err_set(ERR_INTERNAL, "the pipeline's action %d is no message", (int)action.verb);
    }
}

int train_pipeline_receive_tied(struct train_rank *rank, int micro, int layer)
{
    const struct train_pipeline *p = &rank->pipeline;
    if (p->tied < 0 || !is_first(p) || layer != rank->model->params[p->tied].first_layer)
        return ERR_NONE;
    struct model_gradient *gradient = &rank->stage.gradients[p->tied];
    gradient->accumulate = true;
    return issue(rank, "receive tied gradient", TAG_TIED_GRADIENT, micro,
                 (struct message){.peer = last_of(p), .buffer = gradient->data, .bytes = p->tied_bytes});
}

static int send_tied(struct train_rank *rank, int micro)
{
    const struct train_pipeline *p = &rank->pipeline;
    if (p->tied < 0 || !is_last(p))
        return ERR_NONE;
    return issue(
        rank, "send tied gradient", TAG_TIED_GRADIENT, micro,
        (struct message){
            .peer = 0, .sends = true, .buffer = p->tied_gradient, .bytes = p->tied_bytes, .purpose = PURPOSE_REDUCE});
}

static int share_tied(struct train_rank *rank)
{
    const struct train_pipeline *p = &rank->pipeline;
    if (p->tied < 0)
        return ERR_NONE;
    return issue(rank, is_first(p) ? "send tied weight" : "receive tied weight", TAG_TIED_WEIGHT, 0,
                 (struct message){.peer = is_first(p) ? last_of(p) : 0,
                                  .sends = is_first(p),
                                  .buffer = (void *)(uintptr_t)rank->stage.params[p->tied],
                                  .bytes = p->tied_bytes,
                                  .purpose = PURPOSE_GATHER});
}

int train_each_micro_step(struct train_rank *rank, uint64_t step, train_pass_forward *forward,
                          train_pass_backward *backward)
{
    struct train_pipeline *p = &rank->pipeline;
    struct pipeline_action action;
    p->returned = rank->stage.optimizer.returned;
    for (int next = 0; pipeline_next(&p->schedule, p->stage, &next, &action);) {
        stage_begin_micro_step(&rank->stage, action.micro);
        if (action.verb == PIPELINE_FORWARD)
            TRY(forward(rank, step, action.micro));
        else if (action.verb == PIPELINE_BACKWARD)
            TRY(backward(rank, action.micro));
        else
            TRY(send_or_receive(rank, action));
        if (action.verb == PIPELINE_SEND_GRADIENTS)
            TRY(send_tied(rank, action.micro));
    }
    return ERR_NONE;
}

int train_end_step(struct train_rank *rank)
{
    if (rank->stage.optimizer.returned != rank->pipeline.returned)
        TRY(share_tied(rank));
    // An update outside the device overlaps the next step, whose operations wait for the buckets that they need.
    return stage_overlaps_updates(&rank->stage) ? ERR_NONE : executor_wait(rank->executor);
}

int train_pipeline_resume(struct train_rank *rank)
{
    if (rank->pipeline.tied < 0)
        return ERR_NONE;
    comm_count_in(rank->pipeline_comm, NULL);
    int rc = share_tied(rank);
    if (rc == ERR_NONE)
        rc = executor_wait(rank->executor);
    comm_count_in(rank->pipeline_comm, &rank->ledger);
    return rc;
}

void train_pipeline_formula(const struct train_rank *rank, struct formula *formula)
{
    const struct train_pipeline *p = &rank->pipeline;
    uint64_t micros = (uint64_t)p->schedule.micro_count;
    struct model_border border;
    if (p->schedule.stage_count == 1)
        return;
    model_run_border(rank->runs[0], &border);
    formula_send(&formula->step, GROUP_PIPELINE, OPERATION_SEND,
                 micros * border.bytes * (uint64_t)(!is_first(p) + !is_last(p)));
    if (p->tied < 0)
        return;
    if (is_first(p)) {
        formula_send(&formula->returned, GROUP_PIPELINE, OPERATION_SEND, p->tied_bytes);
    } else {
        formula_send(&formula->step, GROUP_PIPELINE, OPERATION_SEND, micros * p->tied_bytes);
        formula->held_bytes[TIER_DEVICE][KIND_STAGING] += p->tied_bytes;
    }
}
