// SPDX-License-Identifier: Apache-2.0
// A GPT's first layer, tokens to stream, and its last one, stream to loss.
#include "ref/model/gpt_pass.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"
#include "ref/model/gpt_cut.h"

static int tokens_check(const struct gpt_pass *pass, const struct model_batch *batch)
{
    size_t count = pass->run->sequence_count * (pass->shape->sequence_length + 1);
    for (size_t i = 0; i < count; i++) {
        if (batch->tokens[i] >= pass->shape->vocabulary)
            return err_set(ERR_USAGE, "token %u is not in %s's vocabulary of %zu", (unsigned)batch->tokens[i],
                           pass->run->model->name, pass->shape->vocabulary);
    }
    return ERR_NONE;
}

static struct token_rows rows_of(const struct gpt_pass *pass, const struct model_batch *batch)
{
    return (struct token_rows){batch->tokens, pass->run->sequence_count, pass->shape->sequence_length};
}

int gpt_embedding_forward(const struct gpt_pass *pass, const struct model_batch *batch)
{
    struct token_rows rows = rows_of(pass, batch);
    TRY(tokens_check(pass, batch));
    if (pass_is_cut(pass)) {
        gpt_cut_embedding_forward(pass, &rows);
        return ERR_NONE;
    }
    embedding_forward(&rows, pass->width, pass->dtype, pass->weights[TOKEN_WEIGHT], pass->weights[POSITION_WEIGHT],
                      pass->memory + pass->at.input);
    return ERR_NONE;
}

// A tied head's part is in the tokens' gradient, and the finished sum is added to it.
int gpt_embedding_backward(const struct gpt_pass *pass, const struct model_batch *batch)
{
    const float *in = pass_all_rows(pass, pass->memory + pass->at.gradient, pass->memory + pass->at.all_rows);
    const struct token_rows rows = rows_of(pass, batch);
    const struct sum_place places[] = {pass_place(pass, TOKEN_WEIGHT), pass_place(pass, POSITION_WEIGHT)};
    embedding_backward(&rows, pass->width, pass->part * pass->vocabulary, pass->vocabulary, in,
                       pass->memory + pass->at.weight_gradient, places);
    return pass->run->code;
}

// The norm's output, the logits and the statistics of their rows, in wide_2, are kept for the head's backward, which is
// next. With a loss scale other than 0 the logits' gradient takes their place immediately.
void gpt_head_forward(const struct gpt_pass *pass, const struct model_batch *batch, float loss_scale)
{
    size_t rows = pass->rows, width = pass->width, vocabulary = pass->shape->vocabulary;
    float *memory = pass->memory, *logits = memory + pass->at.logits, *normed = memory + pass->at.narrow;
    float *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    struct token_rows tokens = rows_of(pass, batch);
    pass->run->logits_scale = 0;
    pass_norm_forward(pass, 0, input, stats, normed, &(struct norm_biases){0});
    if (pass_is_cut(pass)) {
        gpt_cut_head_forward(pass, &tokens, normed);
        return;
    }
    pass_product(
        pass, rows, width, (struct matmul_operand){normed, width, false},
        (struct matmul_operand){pass->weights[HEAD_TOKEN_WEIGHT], width, true},
        (struct gpt_result){.data = logits, .width = vocabulary, .stride = pass->at.logits_stride, .is_operand = true});
    pass->run->loss = crossentropy_forward(&tokens, vocabulary, pass->at.logits_stride, logits,
                                           memory + pass->at.wide_2, loss_scale / (float)rows, pass->dtype) /
                      (double)rows;
    pass->run->logits_scale = loss_scale;
}

// The gradient of the last layer norm's output takes its place.
static void logits_backward(const struct gpt_pass *pass, const struct token_rows *tokens, float loss_scale)
{
    size_t rows = pass->rows, width = pass->width, vocabulary = pass->shape->vocabulary;
    size_t stride = pass->at.logits_stride;
    float *memory = pass->memory, *logits = memory + pass->at.logits, *normed = memory + pass->at.narrow;
    if (pass->run->logits_scale != loss_scale)
        crossentropy_backward(tokens, vocabulary, stride, memory + pass->at.wide_2, loss_scale / (float)rows,
                              pass->dtype, logits);
    pass_weight_product(pass, HEAD_TOKEN_WEIGHT, vocabulary, (struct matmul_operand){logits, stride, true}, normed,
                        width);
    pass_product(pass, rows, vocabulary, (struct matmul_operand){logits, stride, false},
                 (struct matmul_operand){pass->weights[HEAD_TOKEN_WEIGHT], width, false},
                 (struct gpt_result){.data = normed, .width = width, .is_operand = true});
}

int gpt_head_backward(const struct gpt_pass *pass, const struct model_batch *batch, float loss_scale)
{
    size_t rows = pass->rows;
    float *memory = pass->memory, *normed = memory + pass->at.narrow;
    float *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    struct token_rows tokens = rows_of(pass, batch);
    if (pass_is_cut(pass)) {
        const struct norm_rows norm = pass_norm_of(pass, 0, input, stats, normed);
        pass_norm(pass, &norm);
        gpt_cut_head_backward(pass, &tokens, loss_scale / (float)rows, normed, normed);
    } else {
        // Another scale was expected.
        if (pass->run->logits_scale != 0 && pass->run->logits_scale != loss_scale)
            gpt_head_forward(pass, batch, loss_scale);
        logits_backward(pass, &tokens, loss_scale);
    }
    pass_norm_back(pass, &(struct gpt_norm_back){0, input, stats, normed, true}, -1, NULL, 0);
    return ERR_NONE;
}
