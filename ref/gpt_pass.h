// SPDX-License-Identifier: Apache-2.0
// What a GPT's description (gpt.c) and its passes (gpt_pass.c) share: where each parameter stands, and the passes as
// model_operations have them.
#ifndef ZG_GPT_PASS_H
#define ZG_GPT_PASS_H

#include "model.h"

// A block's parameters, in the model's order.
enum {
    LN_1_WEIGHT,
    LN_1_BIAS,
    QKV_WEIGHT,
    QKV_BIAS,
    PROJ_WEIGHT,
    PROJ_BIAS,
    LN_2_WEIGHT,
    LN_2_BIAS,
    FC_WEIGHT,
    FC_BIAS,
    OUT_WEIGHT,
    OUT_BIAS,
    BLOCK_PARAMS
};
// The embedding's, and then the blocks'.
enum { TOKEN_WEIGHT, POSITION_WEIGHT, FIRST_BLOCK_PARAM };
// The head's list: the last layer norm's weight and bias, and the token embedding once more.
enum { HEAD_TOKEN_WEIGHT = 2 };

size_t gpt_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
size_t gpt_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count);
int gpt_forward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                void *checkpoint);
int gpt_backward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                 const struct model_gradient gradients[], float loss_scale, const void *checkpoint);

#endif
