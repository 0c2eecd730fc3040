// SPDX-License-Identifier: Apache-2.0
// Frameworks that train on GPUs, as far as they decide what a device holds in addition to a stage's states: which
// copies of parameters, gradients and logits live, and when; and what people choose in them without a key of a
// configuration.
#pragma once

#include "ref/config/config.h"

#include <stdbool.h>

// How the cross entropy holds the logits of a micro-batch.
enum logits {
    LOGITS_OF_FRAMEWORK,
    LOGITS_HF,
    LOGITS_SHIFTED,
    LOGITS_FP32,
    LOGITS_16BIT,
    LOGITS_CHUNKED,
    LOGITS_FUSED,
    LOGITS_COUNT
};

// The dtype of weights: mixed, the configuration's, with masters in fp32; 16 bits, without masters; or 4 bits for the
// frozen matrices of the blocks.
enum weights { WEIGHTS_MIXED, WEIGHTS_16BIT, WEIGHTS_NF4, WEIGHTS_COUNT };

// The dtype of the optimizer's moments: the dtype of the weights that it updates, or 8 bits.
enum moments { MOMENTS_OF_WEIGHTS, MOMENTS_8BIT, MOMENTS_COUNT };

// The dtype of the blocks' matrix products: of the weights, or FP8, to which operands are converted.
enum products { PRODUCTS_OF_WEIGHTS, PRODUCTS_FP8, PRODUCTS_COUNT };

struct logits_kind {
    const char *name;
    double bytes;  // of a logit and all its copies at the loss, chunked: of the largest chunk, spread over all logits
    const char *formula, *source;
};

struct framework {
    const char *name, *about;
    bool masters_are_parameters;  // fp32 weights are the parameters, and 16-bit copies live while a pass needs them
    bool keeps_gradients;         // gradients have a buffer that lives as long as the run
    bool copies_gradients;        // the update makes fp32 copies of 16-bit gradients
    bool has_temporaries;         // the update works on lists of tensors, with a temporary for every one of them
    bool gathers_modules;         // stage 3 gathers modules one by one, not layers
    bool has_fused_kernels;       // Transformer Engine's, with exchanges of sequence parallelism next to products
    bool has_eager_kernels;       // norms keep their input in fp32, and a gated MLP the output of its activation
    enum logits logits;
    const char *source;
};

// Choices that no key of a configuration has; zeros: what follows from the configuration.
struct framework_choice {
    const struct framework *framework;
    enum logits logits;
    enum weights weights;
    enum moments moments;
    enum products products;
    double checkpointed_share;  // of the blocks, 0 to 1: those that keep only their input
    int context;                // ranks of data parallelism that divide each sequence among them; 0: one
    int interleave;             // parts of a pipeline's stage, in turn with those of the others; 0: one
    bool whole_experts;         // ranks of tensor parallelism have other experts each, in place of slices
};

// The words of the options --framework, --logits, --weights, --moments and --products; null: not given.
struct framework_words {
    const char *framework, *logits, *weights, *moments, *products;
};

// Changes what the words name. ERR_USAGE lists the words of an option.
int framework_choose(const struct framework_words *words, struct framework_choice *out);

// The chosen framework, or that of a configuration: Megatron-LM where it cuts layers, Hugging Face's Trainer for stage
// 0 and for its own files that name FSDP (of version 1 or 2, which hold as much), DeepSpeed for stages 1 and 2 and
// where states are offloaded, else PyTorch's FSDP2.
const struct framework *framework_of(const struct framework_choice *choice, const struct config *config);

const struct logits_kind *framework_logits(const struct framework_choice *choice, const struct framework *framework);
