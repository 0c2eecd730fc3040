// SPDX-License-Identifier: Apache-2.0
// Shared by a Llama's description (llama_make.c) and its passes: llama_layers.c has the layers, llama_pass.c the rest.
#pragma once

#include "ref/arithmetic/llama_math.h"
#include "ref/model/llama/llama.h"

// The parameters of a block, in the model's order.
enum {
    Q_WEIGHT,
    K_WEIGHT,
    V_WEIGHT,
    O_WEIGHT,
    GATE_WEIGHT,
    UP_WEIGHT,
    DOWN_WEIGHT,
    NORM_1_WEIGHT,
    NORM_2_WEIGHT,
    BLOCK_PARAMS
};
// Those of the head.
enum { HEAD_NORM_WEIGHT, HEAD_WEIGHT };

// A Llama's description, which is its model's shape.
struct llama {
    struct llama_sizes sizes;
    struct model model;
    struct model_param *params;
    struct model_layer *layers;
    int *layer_params;  // the layers' lists in sequence
    char (*layer_names)[32];
    float *cosines, *sines;  // rotary positions, [length][head width / 2]
    char name[MODEL_NAME_BYTES];
};

// The width of a head, and of all heads of keys.
size_t llama_head_width(const struct llama_sizes *sizes);
size_t llama_kv_width(const struct llama_sizes *sizes);

// Offsets in a run's memory, in floats. The fields from input to up repeat for each block, `block` apart. With
// checkpointing this distance is 0, and a block's output overwrites its input, which is no more needed then. normed,
// qkv, attention and rounded are operands (gpt_math.h). Logits have the place of what the blocks' passes alone use.
struct llama_layout {
    size_t input, stats_1, qkv, attention, attention_stats, middle, stats_2, gate, up, block;
    size_t output, output_stats;  // of the last block
    size_t gradient;              // with respect to the block's output, then to its input
    size_t rounded;               // the same as an operand; in fp32 the same offset
    size_t normed;                // the input of a layer's products
    size_t wide;                  // hidden channels, and gradients of products' inputs
    size_t qkv_gradient, attention_scratch;
    size_t logits, logits_stride, loss_stats;
    size_t weights,
        weight_gradient;  // a layer's parameters as floats, and a gradient before it is rounded: 16-bit only
    size_t total;
};

// One call of forward or backward.
struct llama_pass {
    struct model_run *run;
    const struct llama *llama;
    const struct llama_sizes *sizes;
    const struct model_layer *list;          // of the parameters that `index` below counts
    const struct model_gradient *gradients;  // backward only
    const float *weights[BLOCK_PARAMS];      // the layer's parameters as operands; not the embedding's table
    struct llama_layout at;
    float *memory, *kept;  // of the block
    size_t rows;
    enum dtype dtype;
};

// Where the gradient of the layer's index-th parameter is computed: its own memory if that is fp32, or null if it
// is not wanted; and the end of that computation, which rounds a gradient to its own memory unless it is there already.
float *llama_gradient(const struct llama_pass *pass, int index);
void llama_hand_over(const struct llama_pass *pass, int index, const float *value);

// Some columns of an array whose rows are `stride` floats apart.
struct llama_columns {
    float *data;
    size_t stride;
};

// With the layer's index-th parameter, a matrix W of output x input, and operands: out = in W^T, or added to what is
// there; din = dout W; dW = dout^T in. in has as many columns as W.
enum llama_result { RESULT_FLOATS, RESULT_OPERAND, RESULT_ADDED };
void llama_multiply(const struct llama_pass *pass, int index, const float *in, struct llama_columns out,
                    enum llama_result result);
void llama_multiply_back(const struct llama_pass *pass, int index, struct llama_columns out_gradient,
                         float *in_gradient, enum llama_result result);
void llama_weight_gradient(const struct llama_pass *pass, int index, struct llama_columns out_gradient,
                           const float *in);

// A norm's weight is the layer's index-th parameter. Backward adds the gradient of its input to the stream's.
void llama_norm(const struct llama_pass *pass, int index, const float *in, const float *stats);
void llama_norm_back(const struct llama_pass *pass, int index, const float *in, const float *stats,
                     const float *out_gradient);

// llama_block_activations computes what backward needs from the layer's input; llama_block_forward the output, too.
void llama_block_activations(const struct llama_pass *pass);
void llama_block_forward(const struct llama_pass *pass);
void llama_block_backward(const struct llama_pass *pass);

int llama_embedding_forward(const struct llama_pass *pass, const struct model_batch *batch, const char *table);
void llama_embedding_backward(const struct llama_pass *pass, const struct model_batch *batch);
void llama_head_forward(const struct llama_pass *pass, const struct model_batch *batch);
void llama_head_backward(const struct llama_pass *pass, const struct model_batch *batch, float loss_scale);

// For model_operations (model.h).
size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
size_t llama_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count);
int llama_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                  void *checkpoint);
int llama_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint);
