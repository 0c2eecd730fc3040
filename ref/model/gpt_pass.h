// SPDX-License-Identifier: Apache-2.0
// Shared by a GPT's description (gpt_make.c) and the parts of its passes: the indices of parameters, the layout of a
// run's memory (gpt_layout.c), and the steps of every layer. gpt_block.c has the blocks, gpt_experts.c their
// mixtures of experts, gpt_ends.c the embedding and the head, gpt_pass.c the rest.
#pragma once

#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"
#include "ref/model/gpt.h"
#include "ref/model/model.h"
#include "ref/model/part.h"

// The parameters of a block, in the model's order. With tiles the MLP's four belong to the first tile; each further
// tile appends its own FC_WEIGHT, FC_BIAS and OUT_WEIGHT, in this order.
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
enum { ATTENTION_PARAMS = FC_WEIGHT, FURTHER_TILE_PARAMS = OUT_BIAS - FC_WEIGHT };
// With experts a block has these parameters after attention's: the router's weight, then FC_WEIGHT to OUT_BIAS of each
// expert that the model or the part has, then adapters.
enum { ROUTER_WEIGHT = ATTENTION_PARAMS, EXPERT_PARAMS = BLOCK_PARAMS - FC_WEIGHT };
// The modules of a block that adapters can have, in this order after its own parameters: A, then B.
enum gpt_module { MODULE_QKV, MODULE_PROJ, MODULE_FC, MODULE_OUT, MODULE_COUNT };
extern const char *const gpt_modules[MODULE_COUNT + 1];  // their names in a block; then NULL

// Sets the widths of a module's input and output.
void gpt_module_widths(const struct gpt_shape *shape, enum gpt_module module, size_t *in_width, size_t *out_width);

// The embedding's parameters precede the blocks'.
enum { TOKEN_WEIGHT, POSITION_WEIGHT, FIRST_BLOCK_PARAM };
// The head's parameters: the last layer norm's weight and bias, and the tied token embedding.
enum { HEAD_TOKEN_WEIGHT = 2 };

// A layer's part of the model. Without tiles a block is one layer, attention and MLP; with tiles it is one layer of
// attention and one for each tile of the MLP.
struct gpt_layer {
    enum { GPT_EMBEDDING, GPT_BLOCK, GPT_HEAD } kind;
    size_t block;  // of the model's, or of the part's
    bool attention, mlp;
    size_t tile;
};
struct gpt_layer gpt_layer_of(const struct model *model, int layer);

// 1, or with tiles attention and each tile.
int gpt_layers_a_block(const struct gpt_shape *shape);

// The blocks of a model, or of a part; and whether it has the head.
size_t gpt_block_count(const struct model *model);
bool gpt_has_head(const struct model *model);

// Offsets in a run's memory, in floats. Of the residual stream, input, middle, output, their statistics and gradient,
// there are the stream's rows of this rank, of all else all rows. The fields from input to normed repeat for each
// block, `block` apart, and fc repeats for each tile, `fc_tile` apart. With checkpointing these distances are 0, and a
// block's output overwrites its input, which is no more needed then. normed, the MLP's input, is kept only with tiles;
// without tiles backward recomputes it. qkv, attention, fc, normed, logits and rounded are operands (gpt_math.h), with
// room for floats.
struct gpt_layout {
    size_t input, stats_1, qkv, attention, attention_stats, middle, stats_2, fc, normed, block, fc_tile;
    size_t output, output_stats;  // of the last block
    size_t gradient;              // with respect to the block's output, then to its input
    size_t wide_1, wide_2, narrow;
    size_t normed_gradient;        // of the MLP's input, a sum over tiles; without tiles the same offset as wide_1
    size_t vectors;                // gradients of biases and layer norms
    size_t logits, logits_stride;  // between rows: whole cache lines
    size_t rounded;                // the gradient of the block's output as an operand, where the logits were
    size_t weights;                // a layer's parameters as floats (16-bit only)
    size_t weight_gradient;        // a gradient not written in place; in fp32 the same offset as the logits
    size_t attention_scratch;
    size_t low, low_gradient;          // u and its gradient (gpt_lora.c), operands
    size_t all_rows;                   // of the stream's gradient, with sequence parallelism
    size_t partials, partial, slices;  // of sums over blocks (gpt_cut.c): a subtree's on each level, and the elements
                                       // of one; the slices that arrive
    size_t vocabulary_rows;            // numbers that ranks exchange for each row of logits (gpt_cut_ends.c)
    // Of a mixture of experts (gpt_experts.c). These are kept of each block: the routes of its tokens, what the experts
    // received, and their answers. fc has a row for each slot.
    size_t probabilities, gates, slots, received, answers;
    size_t sent, returned;  // values of all slots, on their way
    size_t gate_gradients, logit_gradients;
    size_t expert_sum;  // the gradient of one expert's parameters, a sum over source ranks
    size_t total;
};

struct gpt_layout gpt_layout_of(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);

// One call of forward or backward.
struct gpt_pass {
    struct model_run *run;
    const struct gpt_shape *shape;
    const struct model_layer *list;          // of the parameters that `index` below counts
    const struct model_gradient *gradients;  // backward only
    // The layer's parameters as operands, tables as they are.
    const void *weights[ROUTER_WEIGHT + 1 + EXPERT_PARAMS * GPT_EXPERTS_MAX + 2 * MODULE_COUNT];
    struct gpt_layer layer;
    struct gpt_layout at;
    float *memory;
    float *kept, *fc, *normed;  // of the block, of the tile, the MLP's input
    size_t rows, width;
    size_t stream_rows;      // of the residual stream, that this rank has: all, or 1/parts in an order of their own,
    bool sequence_parallel;  // with sequence parallelism (gpt_sequence.c)
    size_t heads_width, tile_width, vocabulary;  // that this rank has: of attention, of the tile, of the logits
    size_t blocks;                               // that this rank has of product_blocks, and of positions
    size_t part, parts;                          // of tensor parallelism
    float loss_scale;                            // backward only
    enum dtype dtype;                            // of operands
    size_t operand_bytes;                        // of an operand's element
};

// For the layer's index-th parameter: pass_wants is true if its gradient is computed; pass_gradient returns the memory
// to compute a matrix's gradient in (its own if that is fp32, scratch otherwise); pass_hand_over writes a finished
// gradient to its own memory unless it is there already.
bool pass_wants(const struct gpt_pass *pass, int index);
float *pass_gradient(const struct gpt_pass *pass, int index);
void pass_hand_over(const struct gpt_pass *pass, int index, const float *value);

// Where the gradient of a vector is handed over, as it is made.
struct sum_place pass_place(const struct gpt_pass *pass, int index);

// The result of a product: its columns, its stride if its rows are apart, whether it is added to what is there, and
// whether it is an operand.
struct gpt_result {
    void *data;
    size_t width, stride;
    bool add, is_operand;
};

// c (m x c.width) = op(a) op(b), of operands with k as their shared dimension.
void pass_product(const struct gpt_pass *pass, size_t m, size_t k, struct matmul_operand a, struct matmul_operand b,
                  struct gpt_result c);

// With a layer's matrix (gpt_cut.c): out = in W, for operands in; din = dout W^T; dW = in^T dout.
void pass_multiply(const struct gpt_pass *pass, int index, const void *in, size_t in_width, struct gpt_result out);
void pass_multiply_back(const struct gpt_pass *pass, int index, const void *out_gradient, size_t out_width,
                        struct gpt_result in_gradient);
void pass_weight_gradient(const struct gpt_pass *pass, int index, const void *in, size_t in_width,
                          const void *out_gradient, size_t out_width);

// The same product as pass_weight_gradient's, in fp32, which is not handed over.
void pass_weight_gradient_into(const struct gpt_pass *pass, int index, const void *in, size_t in_width,
                               const void *out_gradient, size_t out_width, float *target);

// c = alpha x op(a) op(b).
void pass_scaled_product(const struct gpt_pass *pass, float alpha, size_t m, size_t k, struct matmul_operand a,
                         struct matmul_operand b, struct gpt_result c);

// As pass_weight_gradient, of a matrix with `height` rows: dW = in_transposed dout.
void pass_weight_product(const struct gpt_pass *pass, int index, size_t height, struct matmul_operand in_transposed,
                         const void *out_gradient, size_t out_width);

// A layer norm of the stream's rows, whose weight is the index-th parameter, and the gradient of its output. is_first:
// the stream has no gradient yet.
struct gpt_norm_back {
    int index;
    const float *in, *stats;
    const void *out_gradient;
    bool is_first;
};

// The gradient of the block's output as an operand, all rows: itself in fp32, else a rounded copy, valid until the next
// call. back: the stream first receives the gradient of this norm's input, as pass_norm_back adds it; null: none. bias:
// a parameter that was added to the stream, whose gradient is the sum of its rows; -1: none. norm: made as by
// pass_norm; null: none.
const void *pass_stream_gradient(const struct gpt_pass *pass, const struct gpt_norm_back *back, int bias,
                                 const struct norm_rows *norm);

// All rows of what `own` has of the stream's rows (gpt_sequence.c): gathered to `all`, or `own` itself where the stream
// has all rows in the order of tokens.
const void *pass_all_rows(const struct gpt_pass *pass, const void *own, float *all);

// With sequence parallelism, from the stream's own rows: pass_norm_back, and a bias of pass_stream_gradient.
void pass_norm_back_blocks(const struct gpt_pass *pass, int index, const float *in, const float *stats,
                           const void *out_gradient);
void pass_bias_gradient_blocks(const struct gpt_pass *pass, int index, const void *stream);

// A layer norm of the stream's rows; its weight is the index-th parameter, its bias the next; out is an operand with
// all rows. Forward makes the statistics that the others read; pass_norm makes the output again. Backward adds the
// gradient of its input to the stream's, and hands over the gradients of its weight and bias, and of the parameter
// `bias`, the sum of out_gradient's rows; -1: none.
void pass_norm_forward(const struct gpt_pass *pass, int index, const float *in, float *stats, void *out,
                       const struct norm_biases *biases);
struct norm_rows pass_norm_of(const struct gpt_pass *pass, int index, const float *in, const float *stats, void *out);
void pass_norm(const struct gpt_pass *pass, const struct norm_rows *norm);
void pass_norm_back(const struct gpt_pass *pass, const struct gpt_norm_back *back, int bias, const void *out_gradient,
                    size_t width);

// A module's adapters, if it has any. pass_adapt adds their output to out, the module's; pass_adapt_back adds their
// part to the gradient of the module's input, and pass_adapt_gradients, the next call, hands over the gradients of A
// and B.
void pass_adapt(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                struct gpt_result out);
void pass_adapt_back(const struct gpt_pass *pass, enum gpt_module module, const void *out_gradient, size_t out_width,
                     struct gpt_result in_gradient);
void pass_adapt_gradients(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                          const void *out_gradient, size_t out_width);

// Blocks. gpt_block_activations computes what backward needs from the layer's input; gpt_block_forward also computes
// the layer's output. An exchange between ranks may fail.
int gpt_block_activations(const struct gpt_pass *pass);
int gpt_block_forward(const struct gpt_pass *pass);
int gpt_block_backward(const struct gpt_pass *pass);

// A mixture of experts in the place of a block's MLP. activations leaves the experts' answers in the run's memory,
// output writes the stream behind them, gradients makes the parameters' gradients and that of the MLP's input.
int gpt_experts_activations(const struct gpt_pass *pass);
void gpt_experts_output(const struct gpt_pass *pass, float *out);
int gpt_experts_gradients(const struct gpt_pass *pass);

// One expert's slots for the rows of one micro-batch: capacity x top x rows / experts, rounded up, and at most one for
// each row; 0 without experts.
size_t gpt_expert_slots(const struct gpt_shape *shape, size_t rows);

// Experts that each rank of an expert group has.
size_t gpt_experts_held(const struct model *model);
size_t gpt_token_bytes(const struct model *model, int layer, size_t sequence_count);

// The rows that each rank has of the residual stream.
size_t gpt_stream_rows(const struct model *model, size_t sequence_count);

int gpt_embedding_forward(const struct gpt_pass *pass, const struct model_batch *batch);
int gpt_embedding_backward(const struct gpt_pass *pass, const struct model_batch *batch);
void gpt_head_forward(const struct gpt_pass *pass, const struct model_batch *batch, float loss_scale);
int gpt_head_backward(const struct gpt_pass *pass, const struct model_batch *batch, float loss_scale);

// Of a description (gpt_params.c): the parameters of one block; a matrix of rows x columns, or a vector if rows is 0,
// that one layer uses; the parameters of one block, which returns the entry after the last.
int gpt_block_params(const struct gpt_shape *shape);

// A block's parameter: its role in the block without tiles, and its tile. The roles of A and B of module i are
// BLOCK_PARAMS + 2 i and the next. An expert's parameters have the MLP's roles and its number among all experts,
// from 1.
struct gpt_block_param {
    int block_index, role, tile, expert;
};
enum { ROUTER_ROLE = BLOCK_PARAMS + 2 * MODULE_COUNT };
struct gpt_block_param gpt_block_param_of(const struct gpt_shape *shape, int param);
struct model_param *gpt_block_params_set(const struct gpt_shape *shape, int block_index, int layer,
                                         struct model_param *param);

// For model_operations (model.h).
int gpt_initialise(const struct model *model, int param, uint64_t seed, float *out);
// The widths that a rank has: the whole model's, or those of its part of tensor parallelism.
struct gpt_widths {
    size_t parts, part, blocks, heads, heads_width, tile_width, vocabulary;
};
struct gpt_widths gpt_widths_of(const struct model *model);

// Parts for model_operations (model.h), and what a shape's blocks demand.
int gpt_check_blocks(const char *name, const struct gpt_shape *shape);
int gpt_slice(const struct model *whole, const struct model_place *place, struct model_slice *slice,
              struct model_param *param);
struct model_exchange gpt_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                   bool checkpointing);
int gpt_place(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count);
void gpt_border(const struct model_run *run, struct model_border *out);

size_t gpt_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
size_t gpt_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count);
int gpt_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                void *checkpoint);
int gpt_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                 const struct model_gradient gradients[], float loss_scale, const void *checkpoint);
