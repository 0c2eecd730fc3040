// SPDX-License-Identifier: Apache-2.0
// One training step of one rank, as the ZeRO paper has it: forward from the first layer to the last, backward from the
// last to the first, and the optimizer's step, in the verbs of the stage: acquire, release, reduce, step (stage.h).
#include "ref/train/train_internal.h"

#include "base/err.h"

static int forward(struct train_rank *rank, uint64_t step, int micro)
{
    TRY(train_take_batch(rank, step, micro));
    for (int layer = 0; layer < rank->model->layer_count; layer++) {
        TRY(stage_acquire(&rank->stage, layer, PASS_FORWARD));
        TRY(train_forward(rank, layer, micro));
        TRY(stage_release(&rank->stage, layer));
    }
    return ERR_NONE;
}

static int backward(struct train_rank *rank, int micro)
{
    for (int layer = rank->model->layer_count - 1; layer >= 0; layer--) {
        void *checkpoint;
        TRY(activations_restore(&rank->activations, micro, layer, &checkpoint));
        TRY(stage_acquire(&rank->stage, layer, PASS_BACKWARD));
        TRY(train_backward(rank, layer, micro, checkpoint));
        TRY(stage_release(&rank->stage, layer));
        TRY(stage_reduce(&rank->stage, layer));
    }
    return ERR_NONE;
}

int train_step(struct train_rank *rank, uint64_t step, struct train_outcome *out)
{
    const struct train_setting *setting = rank->setting;
    *rank->loss = 0.0;
    if (setting->mean_count)
        rank->stage.optimizer.mean_count = setting->mean_count(setting->mean_context, rank->data_rank, step);
    TRY(train_each_micro_step(rank, step, forward, backward));
    TRY(train_agree_begin(rank));
    TRY(stage_step(&rank->stage, &out->applied));
    TRY(train_end_step(rank));
    return train_agree_end(rank, out);
}
