// SPDX-License-Identifier: Apache-2.0
// A model, as a stage sees it: parameters in order, and layers (an embedding, a block, a head) that each use some of
// them, run forward first to last and backward last to first. A run is one rank's working memory for one micro-batch.
// A rank's gradient depends only on the parameters and the micro-batch: same shapes, fixed order of sums.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/tier/tier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_RANK_MAX = 4, MODEL_NAME_BYTES = 96 };

struct model_param {
    char name[MODEL_NAME_BYTES];
    size_t shape[MODEL_RANK_MAX];
    int shape_rank;   // 0: a scalar
    size_t count;     // elements; may be 0
    int group;        // optimizer group
    bool frozen;      // no gradient, no optimizer state
    bool used;        // false: its gradient is zero
    int first_layer;  // the lowest layer that uses it: its backward completes the gradient
    int layer_count;  // layers that use it; 2 for a tied weight
    bool duplicate;   // another part of the model (part.h) has the same elements and counts them in the norm
    bool expert;      // an expert's: tokens of other ranks reach it as well
    bool whole;       // its update is of the whole tensor: one rank owns it (layout.h)
};

struct comm;
struct lora;
struct model_part;
struct model_border;
struct model_place;
struct model_slice;

struct model_layer {
    const char *name;
    const int *params;  // indices of the parameters it uses
    int param_count;
};

struct model {
    const char *name;
    const struct model_param *params;  // in the model's order
    int param_count;
    const struct model_layer *layers;
    int layer_count;
    int group_count;
    const struct lora
        *lora;  // of adapters (lora.h): frozen parameters are a base, which checkpoints leave out; or null
    const struct model_part *part;  // of which it is the model (part.h); null: it is a whole model
    size_t sequence_length;         // tokens per sequence; 1 for a model without sequences
    bool wants_text;                // a micro-batch has tokens
    bool sequence_parallel;         // parts of tensor parallelism divide the sequence, too (gpt.h)
    int expert_count;               // of each mixture of experts; 0: there is none
    bool whole_experts;             // of plans alone: parts of tensor parallelism have other experts, none a slice
    bool on_host;                   // its passes compute in host memory alone
    const struct model_operations *operations;
    const void *shape;  // owned and read only by the model
};

// One micro-batch. tokens: [sequence_count][sequence_length + 1], not owned; a token's target is the next token.
struct model_batch {
    const uint16_t *tokens;
    size_t sequence_count;
    uint64_t seed;
    uint64_t step;  // from 1
    int micro;      // micro-step of the step, from 0
    int rank;
};

// The gradient of one parameter, in an array by parameter index; a layer reads only its own entries. data is in the
// run's dtype. accumulate: data holds the part of the layers above (tied weights), and backward adds this layer's part,
// complete and in fp32, element by element and rounds the sum (dtype_accumulate). Otherwise backward overwrites it.
struct model_gradient {
    void *data;  // null: not computed (frozen)
    bool accumulate;
};

struct model_run;

// The width of a token's embedding, the first parameter; 0 for a model without tokens.
size_t model_width(const struct model *model);

// Writes the initial values of one parameter, [count] in fp32; they depend only on the seed and the index. ERR_MEMORY:
// of a part (part.h), which makes the whole parameter first.
int model_initialise(const struct model *model, int param, uint64_t seed, float *out);

// Describes a trainable parameter that one layer uses: a matrix of rows x columns, or a vector of `columns` if rows is
// 0.
void model_param_set(struct model_param *param, const char *name, size_t rows, size_t columns, int layer);

// The elements of all parameters (trainable_only: of those that are not frozen); a tied weight counts once.
uint64_t model_param_elements(const struct model *model, bool trainable_only);

// The elements of all parameters that a layer uses.
size_t model_layer_elements(const struct model *model, int layer);

// The floating-point operations of one layer's forward for one micro-batch; its backward has twice as many. model_flops
// sums forward and backward over all layers.
double model_layer_flops(const struct model *model, int layer, size_t sequence_count);
double model_flops(const struct model *model, size_t sequence_count);

// Allocates working memory for sequence_count sequences with parameters and gradients in dtype: one allocation of kind
// activation on the tier, or plain, uncounted memory if tier is null.
//
// Without checkpointing the run holds the activations of all layers from forward to backward. With checkpointing it
// holds one block's: a layer's forward writes its input to a checkpoint, which the caller keeps, and its backward
// recomputes the forward from there. Losses and gradients have the same bits in both.
//
// ERR_USAGE: no sequence, or more than INT_MAX tokens, the largest dimension of a matrix product.
int model_run_open(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing,
                   struct tier *tier, struct model_run **out);
void model_run_close(struct model_run *run);

// The bytes that one exchange of tokens in a layer sends to each other rank; 0: the layer has no experts. Forward has
// two exchanges (to the experts and back), backward two (gradients to the experts and back), and two more where it
// computes forward again.
size_t model_token_bytes(const struct model *model, int layer, size_t sequence_count);

// The bytes that model_run_open allocates, and their address.
size_t model_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
void *model_run_memory(const struct model_run *run);

// The bytes of a layer's checkpoint; 0 for a layer that needs none, such as the first. A checkpoint has the size of
// fp32 in every dtype, as have all values between layers.
size_t model_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count);

// Runs one layer forward. params[i], for the layer's parameters: unsharded tensors in the run's dtype. batch must not
// change from the first forward to the last backward. checkpoint: memory for the layer's checkpoint, aligned for float
// and used only during the call; ignored without checkpointing or for a layer without a checkpoint.
int model_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                  void *checkpoint);

// Runs one layer backward. gradients[i], for the layer's parameters, receives the gradient of loss_scale x the mean
// loss over the micro-batch. checkpoint: the one that this layer's forward wrote. Layers run backward in turn, last to
// first; with checkpointing, the run may do other forwards between forward and backward of a micro-batch.
int model_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint);

// Before the last layer's forward: its backward follows with this scale of the loss, so that gradients can be made
// while their values are at hand; 0, as at first: nobody knows. No bits depend on it, nor on whether it comes true.
void model_expect(struct model_run *run, float loss_scale);

// The micro-batch's unscaled mean loss, after the last layer's forward.
double model_loss(const struct model_run *run);

// The exchange of the ranks that cut a layer, in its forward or in its backward with recomputation: sums of floats, in
// which each of T ranks sends a slice to each other one and its slice of the sum to all; and all-gathers of
// gathered_elements floats from each rank, all together.
struct model_sum {
    size_t count, elements;  // of one
};
// Of the values between layers, of one expert's slots, of adapters' values between A and B, and, with sequence
// parallelism, of the gradients of norms and of biases.
enum { MODEL_SUM_STREAM, MODEL_SUM_SLOTS, MODEL_SUM_ADAPTERS, MODEL_SUM_NORMS, MODEL_SUM_BIASES, MODEL_SUM_KINDS };
struct model_exchange {
    struct model_sum sums[MODEL_SUM_KINDS];
    size_t gathered_elements;
    // With sequence parallelism: sums of which each rank keeps its slice, and all-gathers of such slices, both of
    // stream_elements a rank.
    size_t scatters, gathers, stream_elements;
};
struct model_exchange model_exchange(const struct model *model, int layer, size_t sequence_count, bool backward,
                                     bool checkpointing);

// One model's implementation of the functions above.
struct model_operations {
    int (*initialise)(const struct model *model, int param, uint64_t seed, float *out);
    double (*layer_flops)(const struct model *model, int layer, size_t sequence_count);
    size_t (*run_bytes)(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
    size_t (*checkpoint_bytes)(const struct model *model, int layer, size_t sequence_count);
    int (*forward)(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   void *checkpoint);
    int (*backward)(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                    const struct model_gradient gradients[], float loss_scale, const void *checkpoint);
    size_t (*token_bytes)(const struct model *model, int layer, size_t sequence_count);  // null: 0
    // For parts (part.h); null: the model has none. place sets the layers of a part; ERR_USAGE: there is no such part.
    // slice, of a parameter that the part uses and that *slice and *param describe as a whole, cuts both; the count is
    // the caller's; no blocks: the part has nothing of it. Null: no parameter is cut.
    int (*place)(const struct model *whole, const struct model_place *place, int *first_layer, int *layer_count);
    int (*slice)(const struct model *whole, const struct model_place *place, struct model_slice *slice,
                 struct model_param *param);
    void (*border)(const struct model_run *run, struct model_border *out);  // null: layers cannot be divided
    // Of a part of tensor parallelism; null: nothing is exchanged.
    struct model_exchange (*exchange)(const struct model *model, int layer, size_t sequence_count, bool backward,
                                      bool checkpointing);
    bool multiplies_matrices;
};

struct model_run {
    const struct model *model;
    size_t sequence_count;
    enum dtype dtype;
    bool checkpointing;
    struct tier *tier;
    void *memory;
    double loss;
    int threads;               // that share a pass, set by the caller of model_run_open; 0: one
    struct comm *expert_comm;  // of the ranks that have all experts together, set by the caller of model_run_open, as
                               // tensor_comm is; null: this one has all
    struct comm *tensor_comm;  // of the ranks that cut each layer, set by the caller of model_run_open; null: there are
                               // none. Passes of all these ranks exchange data there.
    int code;                  // of the first exchange that failed
    float expected_scale;      // of the loss (model_expect)
    float logits_scale;        // of the gradient that the last forward left in place of the logits; 0: they are there
};
