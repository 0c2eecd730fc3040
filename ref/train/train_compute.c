// SPDX-License-Identifier: Apache-2.0
// The computation of a layer as one operation: what it reads and writes, with pointers as they are when it is issued.
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <string.h>

int train_batch(const struct train_setting *setting, uint64_t step, int micro, int rank, uint16_t *tokens,
                struct model_batch *out)
{
    *out = (struct model_batch){
        .tokens = tokens,
        .sequence_count = setting->config->micro_batch,
        .seed = setting->seed,
        .step = step,
        .micro = micro,
        .rank = rank,
    };
    if (!setting->text)
        return ERR_NONE;
    // Numbered micro-step by micro-step, so that the text of a step depends only on ranks x micro-steps.
    uint64_t index = (uint64_t)micro * (uint64_t)train_data_ranks(setting) + (uint64_t)rank;
    return text_batch(setting->text, setting->seed, step, index, setting->config->micro_batch,
                      setting->model->sequence_length, tokens);
}

// A layer's forward or backward. The pointers that were valid when it was issued follow it, in one block.
struct compute_arguments {
    struct model_run *run;
    struct model_batch batch;
    void *checkpoint;
    int layer, param_count;
    enum pass pass;
    float loss_scale;
    double *loss;  // the last layer's forward adds to it
};

static int run_compute(void *arguments)
{
    struct compute_arguments *a = arguments;
    const void **params = (const void **)(a + 1);
    struct model_gradient *gradients = (struct model_gradient *)(params + a->param_count);
    if (a->pass == PASS_BACKWARD)
        return model_backward(a->run, a->layer, &a->batch, params, gradients, a->loss_scale, a->checkpoint);
    model_expect(a->run, a->loss_scale);
    TRY(model_forward(a->run, a->layer, &a->batch, params, a->checkpoint));
    if (a->loss)
        *a->loss += model_loss(a->run);
    return ERR_NONE;
}

// A micro-step's tokens, if the model has them.
static struct executor_span tokens_span(const struct train_rank *rank, int micro, enum executor_access access)
{
    size_t count = rank->setting->config->micro_batch * (rank->model->sequence_length + 1);
    return (struct executor_span){rank->batches[micro].tokens, count * sizeof(uint16_t), access};
}

// Lengthens the last span, of the same access, if this one begins where it ends; adds it otherwise.
static void add_span(struct executor_span spans[], size_t *count, struct executor_span span)
{
    struct executor_span *last = *count > 0 ? &spans[*count - 1] : NULL;
    if (last && span.access == last->access && (const char *)last->address + last->bytes == span.address)
        last->bytes += span.bytes;
    else
        spans[(*count)++] = span;
}

// The parameters and gradients that the computation declares; spans has room for 2 x the layer's parameters.
static size_t find_states(const struct train_rank *rank, const struct compute_arguments *a,
                          struct executor_span spans[])
{
    const struct model *model = rank->model;
    const struct model_layer *u = &model->layers[a->layer];
    size_t element_bytes = dtype_bytes(rank->setting->config->precision), count = 0;
    for (int i = 0; i < u->param_count; i++) {
        size_t bytes = model->params[u->params[i]].count * element_bytes;
        add_span(spans, &count, (struct executor_span){rank->stage.params[u->params[i]], bytes, EXECUTOR_READ});
    }
    for (int i = 0; i < u->param_count && a->pass == PASS_BACKWARD; i++) {
        const struct model_gradient *gradient = &rank->stage.gradients[u->params[i]];
        size_t bytes = model->params[u->params[i]].count * element_bytes;
        enum executor_access access = gradient->accumulate ? EXECUTOR_READ_WRITE : EXECUTOR_WRITE;
        if (gradient->data)
            add_span(spans, &count, (struct executor_span){gradient->data, bytes, access});
    }
    return count;
}

// The memory that the computation declares; spans has room for 4 + 2 x the layer's parameters. *work_bytes: of the
// parameters and the gradients.
static size_t find_spans(const struct train_rank *rank, const struct compute_arguments *a, int micro,
                         struct executor_span spans[], size_t *work_bytes)
{
    size_t kept_bytes = a->checkpoint ? activations_bytes(&rank->activations, a->layer) : 0;
    size_t state_count = find_states(rank, a, spans), count = state_count;
    *work_bytes = executor_span_bytes(spans, state_count);
    spans[count++] = (struct executor_span){model_run_memory(a->run), rank->run_bytes, EXECUTOR_READ_WRITE};
    spans[count++] =
        (struct executor_span){a->checkpoint, kept_bytes, a->pass == PASS_FORWARD ? EXECUTOR_WRITE : EXECUTOR_READ};
    spans[count++] = (struct executor_span){a->loss, a->loss ? sizeof *a->loss : 0, EXECUTOR_READ_WRITE};
    spans[count++] = tokens_span(rank, micro, EXECUTOR_READ);
    return count;
}

// Copies the arguments, and the pointers to every parameter and gradient behind them, of which a dry run needs none;
// returns their bytes.
static size_t fill_arguments(struct train_rank *rank, int layer, enum pass pass, int micro, void *checkpoint)
{
    const struct model *model = rank->model;
    size_t params_bytes = (size_t)model->param_count * sizeof(void *);
    size_t gradients_bytes = (size_t)model->param_count * sizeof(struct model_gradient);
    struct compute_arguments *a = rank->arguments;
    *a = (struct compute_arguments){
        .run = rank->runs[micro % rank->run_count],
        .batch = rank->batches[micro],
        .checkpoint = checkpoint,
        .layer = layer,
        .param_count = model->param_count,
        .pass = pass,
        .loss_scale = (float)scaler_scale(&rank->stage.optimizer.scaler),
        .loss = pass == PASS_FORWARD && layer == model->layer_count - 1 ? rank->loss : NULL,
    };
    if (executor_is_dry(rank->executor))
        return sizeof *a;
    memcpy(a + 1, rank->stage.params, params_bytes);
    memcpy((char *)(a + 1) + params_bytes, rank->stage.gradients, gradients_bytes);
    return sizeof *a + params_bytes + gradients_bytes;
}

static int issue_compute(struct train_rank *rank, int layer, enum pass pass, int micro, void *checkpoint)
{
    const struct config *config = rank->setting->config;
    struct executor_span spans[4 + 2 * rank->model->layers[layer].param_count];
    size_t arguments_bytes = fill_arguments(rank, layer, pass, micro, checkpoint), work_bytes;
    size_t span_count = find_spans(rank, rank->arguments, micro, spans, &work_bytes);
    // Backward has two products for each of forward's. With checkpoints it computes forward once more.
    executor_set_bucket(rank->executor, -1);
    double passes = pass == PASS_FORWARD ? 1 : config->activation_checkpointing ? 3 : 2;
    TRY(executor_issue(rank->executor, &(struct executor_operation){
                                           .name = pass == PASS_FORWARD ? "forward" : "backward",
                                           .lane = LANE_COMPUTE,
                                           .meets = train_exchanges(rank, layer),
                                           .run = run_compute,
                                           .arguments = rank->arguments,
                                           .arguments_bytes = arguments_bytes,
                                           .spans = spans,
                                           .span_count = span_count,
                                           .flops = passes * model_layer_flops(rank->model, layer, config->micro_batch),
                                           .work_bytes = work_bytes,
                                       }));
    return train_exchange_dry(rank, layer, pass, micro);
}

int train_take_batch(struct train_rank *rank, uint64_t step, int micro)
{
    struct model_batch *batch = &rank->batches[micro];
    const struct executor_span tokens = tokens_span(rank, micro, EXECUTOR_WRITE);
    TRY(executor_wait_for(rank->executor, &tokens));
    return train_batch(rank->setting, step, micro, rank->data_rank, (uint16_t *)(uintptr_t)batch->tokens, batch);
}

int train_forward(struct train_rank *rank, int layer, int micro)
{
    void *checkpoint = activations_room(&rank->activations, micro, layer);
    TRY(issue_compute(rank, layer, PASS_FORWARD, micro, checkpoint));
    return activations_keep(&rank->activations, micro, layer, checkpoint);
}

int train_backward(struct train_rank *rank, int layer, int micro, void *checkpoint)
{
    TRY(train_pipeline_receive_tied(rank, micro, layer));
    return issue_compute(rank, layer, PASS_BACKWARD, micro, checkpoint);
}
