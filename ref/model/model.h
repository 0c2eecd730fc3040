// SPDX-License-Identifier: Apache-2.0
// A model, as a stage sees it: parameters in order, and layers (an embedding, a block, a head) that use some of them,
// run forward first to last and backward last to first. A run is one rank's working memory for one micro-batch.
// A rank's gradient is a function of the parameters and the micro-batch alone: same shapes, one thread, fixed order.
#ifndef ZG_MODEL_H
#define ZG_MODEL_H

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
    int first_layer;  // the lowest layer that uses it: there its gradient is complete
    int layer_count;  // layers that use it; 2 for a tied weight
};

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
    size_t sequence_length;  // tokens a sequence; 1 where that has no meaning
    bool wants_text;         // a micro-batch needs tokens
    const struct model_operations *operations;
    const void *shape;  // the model's own
};

// What a micro-batch is. tokens: sequences x (sequence_length + 1) of them, row by row; the targets are the tokens
// one further on. Not owned.
struct model_batch {
    const uint16_t *tokens;
    size_t sequence_count;
    uint64_t seed;
    uint64_t step;  // from 1
    int micro;      // micro-step, from 0
    int rank;
};

// Pointers by parameter index; only a layer's own entries are read. data is in the run's dtype. For gradients,
// `accumulate` says that the entry holds the part of layers above this one (tied weights): this layer's part, complete
// and in fp32, is added to it element by element and the sum rounded (dtype_accumulate). Otherwise it is overwritten.
struct model_gradient {
    void *data;  // null: not wanted (frozen)
    bool accumulate;
};

struct model_run;

// By name: gpt-nano, gpt-tiny, gpt-3m, gpt-10m, gpt2-124m and GPTs of any size (gpt_find.h), and the models of
// linear.h. ERR_USAGE lists the names. What is found lasts as long as the process.
int model_find(const char *name, const struct model **out);

// The same model with its large layers cut into so many tiles: NAME:tiles=N. 0 and 1 leave it whole.
int model_find_tiled(const char *name, size_t tiling_factor, const struct model **out);

// Initial values, fp32, of one parameter; a function of seed and index alone.
void model_initialise(const struct model *model, int param, uint64_t seed, float *out);

// Elements of all parameters (trainable_only: without frozen ones); a tied weight counts once.
uint64_t model_param_elements(const struct model *model, bool trainable_only);

// Floating-point operations of one layer's forward for one micro-batch; its backward has twice as many. And those of
// forward and backward of all layers.
double model_layer_flops(const struct model *model, int layer, size_t sequence_count);
double model_flops(const struct model *model, size_t sequence_count);

// Working memory for sequence_count sequences with parameters and gradients in dtype: one allocation of kind
// activation on the tier. tier may be null: plain memory, uncounted.
//
// Without checkpointing it holds the activations of all layers, from forward to backward. With checkpointing it holds
// those of one block: a layer's forward writes down what it was given, and its backward computes the forward once more
// from there. Losses and gradients are the same in every bit. What is written down is the caller's to keep.
int model_run_open(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing,
                   struct tier *tier, struct model_run **out);
void model_run_close(struct model_run *run);

// The bytes that model_run_open takes, and where they are.
size_t model_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
void *model_run_memory(const struct model_run *run);

// The bytes of a layer's checkpoint; 0 for a layer that needs none, such as the first. fp32 in every dtype, as is what
// passes from layer to layer.
size_t model_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count);

// params[i] for the layer's parameters: whole tensors in the run's dtype. batch must stay the same from the first
// forward to the last backward. checkpoint: with checkpointing, and where the layer has one, memory for it, aligned as
// float is and needed during the call alone; otherwise it is not looked at.
int model_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                  void *checkpoint);

// loss_scale multiplies the loss before backward. gradients[i] for the layer's parameters: gradient of
// loss_scale x the mean loss over the micro-batch. checkpoint: what this layer's forward wrote. Layers go backward one
// after the other, last to first; with checkpointing, other forwards of the run may lie between forward and backward
// of a micro-batch.
int model_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint);

// The micro-batch's unscaled mean loss, after the last layer's forward.
double model_loss(const struct model_run *run);

// Behind the functions above, one table a model.
struct model_operations {
    void (*initialise)(const struct model *model, int param, uint64_t seed, float *out);
    double (*layer_flops)(const struct model *model, int layer, size_t sequence_count);
    size_t (*run_bytes)(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing);
    size_t (*checkpoint_bytes)(const struct model *model, int layer, size_t sequence_count);
    int (*forward)(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   void *checkpoint);
    int (*backward)(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                    const struct model_gradient gradients[], float loss_scale, const void *checkpoint);
};

struct model_run {
    const struct model *model;
    size_t sequence_count;
    enum dtype dtype;
    bool checkpointing;
    struct tier *tier;
    void *memory;
    double loss;
};

#endif
