// SPDX-License-Identifier: Apache-2.0
// One training step of one rank: each layer, forward and backward, between the verbs of the stage.
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

static int issue_compute(struct train_rank *rank, int layer, enum pass pass, int micro, void *checkpoint)
{
    struct model_run *run = rank->runs[micro % rank->run_count];
    const struct model *model = rank->model;
    const struct model_layer *u = &model->layers[layer];
    size_t params_bytes = (size_t)model->param_count * sizeof(void *);
    size_t gradients_bytes = (size_t)model->param_count * sizeof(struct model_gradient);
    struct compute_arguments *a = rank->arguments;
    *a = (struct compute_arguments){
        .run = run,
        .batch = rank->batches[micro],
        .checkpoint = checkpoint,
        .layer = layer,
        .param_count = model->param_count,
        .pass = pass,
        .loss_scale = (float)scaler_scale(&rank->stage.optimizer.scaler),
        .loss = pass == PASS_FORWARD && layer == model->layer_count - 1 ? rank->loss : NULL,
    };
    memcpy(a + 1, rank->stage.params, params_bytes);
    memcpy((char *)(a + 1) + params_bytes, rank->stage.gradients, gradients_bytes);

    const struct config *config = rank->setting->config;
    size_t element_bytes = dtype_bytes(config->precision);
    struct executor_span spans[4 + 2 * u->param_count];
    size_t count = 0;
    spans[count++] = (struct executor_span){model_run_memory(run), rank->run_bytes, EXECUTOR_READ_WRITE};
    spans[count++] = (struct executor_span){checkpoint, checkpoint ? activations_bytes(&rank->activations, layer) : 0,
                                            pass == PASS_FORWARD ? EXECUTOR_WRITE : EXECUTOR_READ};
    for (int i = 0; i < u->param_count; i++) {
        int param = u->params[i];
        size_t bytes = model->params[param].count * element_bytes;
        const struct model_gradient *gradient = &rank->stage.gradients[param];
        spans[count++] = (struct executor_span){rank->stage.params[param], bytes, EXECUTOR_READ};
        if (pass == PASS_BACKWARD && gradient->data)
            spans[count++] = (struct executor_span){gradient->data, bytes,
                                                    gradient->accumulate ? EXECUTOR_READ_WRITE : EXECUTOR_WRITE};
    }
    size_t work_bytes = executor_span_bytes(spans + 2, count - 2);
    spans[count++] = (struct executor_span){a->loss, a->loss ? sizeof *a->loss : 0, EXECUTOR_READ_WRITE};
    spans[count++] = tokens_span(rank, micro, EXECUTOR_READ);
    // Backward has two products for each of forward's. With checkpoints it computes forward once more.
    executor_set_bucket(rank->executor, -1);
    double passes = pass == PASS_FORWARD ? 1 : config->activation_checkpointing ? 3 : 2;
    return executor_issue(rank->executor, &(struct executor_operation){
                                              .name = pass == PASS_FORWARD ? "forward" : "backward",
                                              .lane = LANE_COMPUTE,
                                              .meets = train_exchanges(rank, layer),
                                              .run = run_compute,
                                              .arguments = a,
                                              .arguments_bytes = sizeof *a + params_bytes + gradients_bytes,
                                              .spans = spans,
                                              .span_count = count,
                                              .flops = passes * model_layer_flops(model, layer, config->micro_batch),
                                              .work_bytes = work_bytes,
                                          });
}

static int forward(struct train_rank *rank, uint64_t step, int micro)
{
    struct stage *stage = &rank->stage;
    struct model_batch *batch = &rank->batches[micro];
    const struct executor_span tokens = tokens_span(rank, micro, EXECUTOR_WRITE);
    TRY(executor_wait_for(rank->executor, &tokens, 1));
    TRY(train_batch(rank->setting, step, micro, rank->data_rank, (uint16_t *)(uintptr_t)batch->tokens, batch));
    for (int layer = 0; layer < rank->model->layer_count; layer++) {
        TRY(stage_acquire(stage, layer, PASS_FORWARD));
        void *checkpoint = activations_room(&rank->activations, micro, layer);
        TRY(issue_compute(rank, layer, PASS_FORWARD, micro, checkpoint));
        TRY(train_exchange_dry(rank, layer, PASS_FORWARD, micro));
        TRY(activations_keep(&rank->activations, micro, layer, checkpoint));
        TRY(stage_release(stage, layer));
    }
    return ERR_NONE;
}

static int backward(struct train_rank *rank, int micro)
{
    struct stage *stage = &rank->stage;
    for (int layer = rank->model->layer_count - 1; layer >= 0; layer--) {
        void *checkpoint;
        TRY(activations_restore(&rank->activations, micro, layer, &checkpoint));
        TRY(stage_acquire(stage, layer, PASS_BACKWARD));
        TRY(train_pipeline_receive_tied(rank, micro, layer));
        TRY(issue_compute(rank, layer, PASS_BACKWARD, micro, checkpoint));
        TRY(train_exchange_dry(rank, layer, PASS_BACKWARD, micro));
        TRY(stage_release(stage, layer));
        TRY(stage_reduce(stage, layer));
    }
    return ERR_NONE;
}

static int act(struct train_rank *rank, uint64_t step, struct pipeline_action action)
{
    stage_begin_micro_step(&rank->stage, action.micro);
    if (action.verb == PIPELINE_FORWARD)
        return forward(rank, step, action.micro);
    if (action.verb == PIPELINE_BACKWARD)
        return backward(rank, action.micro);
    TRY(train_pipeline_message(rank, action));
    return action.verb == PIPELINE_SEND_GRADIENTS ? train_pipeline_send_tied(rank, action.micro) : ERR_NONE;
}

// The schedule of one stage, without pipeline parallelism, is forward and backward of one micro-batch after the other.
int train_step(struct train_rank *rank, uint64_t step, struct train_outcome *out)
{
    const struct optimizer *optimizer = &rank->stage.optimizer;
    struct pipeline_action action;
    uint64_t returned = optimizer->returned;
    *rank->loss = 0.0;
    for (int next = 0; pipeline_next(&rank->pipeline.schedule, rank->pipeline.stage, &next, &action);)
        TRY(act(rank, step, action));
    TRY(train_agree_begin(rank));
    TRY(stage_step(&rank->stage, &out->applied));
    if (optimizer->returned != returned)
        TRY(train_pipeline_share_tied(rank));
    // An update outside the device goes on beside the next step, whose operations wait for the buckets that they need.
    if (!stage_updates_beside(&rank->stage))
        TRY(executor_wait(rank->executor));
    return train_agree_end(rank, out);
}

int train_settle(struct train_rank *rank)
{
    TRY(stage_end_update(&rank->stage));
    return executor_wait(rank->executor);
}
