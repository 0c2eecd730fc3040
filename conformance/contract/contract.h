// SPDX-License-Identifier: Apache-2.0
// The contract as C functions: an implementation in a shared object, which `zerogauge check --plugin ./mine.so` loads
// in a process of its own and asks all cases. This file needs nothing but a C or C++ compiler: copy it. CONTRACT.md
// says what the words mean; adapters/contract_example.c is a whole implementation.
//
// The shared object exports one function, zerogauge_implementation. The host calls its table from one thread, and for
// each case in this order:
//
//     open
//     load                                         the resuming half of a case
//     for each step K:
//         for each micro-step, for each rank:      gradients
//         step
//         read                                     for each state and parameter
//     save                                         the half of a case that is to be resumed
//     usage                                        for each rank
//     close                                        always, if open succeeded
//
// All ranks live in one process. If yours must run at the same time, keep what `gradients` is given and begin in the
// call for the last rank, or in `step`.
//
// Whoever makes memory frees it. What the host passes is its own and valid until the call returns, but for struct
// zerogauge_case and all that it points to, which stays until close has returned. Arrays do not overlap. Whole tensors
// are in row-major order. Every call returns a zerogauge_result; where that is not ZEROGAUGE_OK, the message in
// struct zerogauge_case should say why.
#ifndef ZEROGAUGE_CONTRACT_H
#define ZEROGAUGE_CONTRACT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Of this table and its structs. A host takes only its own version, and only structs of its own size.
#define ZEROGAUGE_CONTRACT 1

enum zerogauge_result {
    ZEROGAUGE_OK = 0,
    ZEROGAUGE_UNSUPPORTED = 1,  // of open: this case is declined. Of read: this is not kept
    ZEROGAUGE_REFUSED = 2,      // of open: the case makes no sense, as a user would be told
    ZEROGAUGE_FAILED = 3        // the case has no answer
};

enum zerogauge_dtype { ZEROGAUGE_FP32 = 0, ZEROGAUGE_BF16 = 1, ZEROGAUGE_FP16 = 2 };  // float; or uint16_t, the bits
enum zerogauge_tier { ZEROGAUGE_NONE = 0, ZEROGAUGE_CPU = 1, ZEROGAUGE_NVME = 2 };
enum zerogauge_scale { ZEROGAUGE_SCALE_NONE = 0, ZEROGAUGE_SCALE_STATIC = 1, ZEROGAUGE_SCALE_DYNAMIC = 2 };
enum zerogauge_phase { ZEROGAUGE_WHOLE = 0, ZEROGAUGE_SAVE = 1, ZEROGAUGE_RESUME = 2 };
enum zerogauge_state { ZEROGAUGE_PARAM = 0, ZEROGAUGE_EXP_AVG = 1, ZEROGAUGE_EXP_AVG_SQ = 2, ZEROGAUGE_GRAD = 3 };

struct zerogauge_param {
    const char *name;
    const uint64_t *shape;  // [shape_rank]
    uint64_t count;         // elements; may be 0
    int32_t shape_rank;     // 0: a scalar
    int32_t group;          // index
    int32_t frozen, used;   // 0 or 1; not used: it has no gradient
    int32_t tied_to;        // the index of the parameter that it is another use of; -1: none
    int32_t reserved;       // 0
};

struct zerogauge_group {
    const double *lr;  // [steps]: of step K in [K - 1]
    double beta1, beta2, eps, weight_decay;
    int32_t decoupled;  // 1: AdamW; 0: Adam with L2
    int32_t bias_correction;
};

// case.json, read. Nothing is to be looked up anywhere else.
struct zerogauge_case {
    uint64_t struct_bytes;  // of this struct, as the host has it
    const char *name;
    const char *json;  // the whole text of case.json
    char *message;     // [message_bytes]: write here why a call does not return ZEROGAUGE_OK, and a zero behind it
    uint64_t message_bytes;
    int32_t world, steps, accumulation, stage;
    int32_t first_step, last_step;                               // that are asked for
    int32_t precision, communication_dtype, accumulation_dtype;  // enum zerogauge_dtype
    int32_t param_count, group_count;
    int32_t overflow_check, exact, expects_refusal;                        // 0 or 1
    int32_t delayed_update;                                                // 0: none
    int32_t loss_scale;                                                    // enum zerogauge_scale
    int32_t offload_optimizer, offload_param;                              // enum zerogauge_tier
    int32_t phase;                                                         // enum zerogauge_phase
    int32_t checkpoint_step, weights_only;                                 // of a case with a phase
    int32_t overlap, contiguous_gradients, reduce_scatter;                 // hints, 0 or 1
    int32_t reserved;                                                      // 0
    uint64_t reduce_bucket, allgather_bucket, prefetch_bucket, sub_group;  // hints, in elements
    double gradient_clipping;                                              // largest norm; 0: off
    double scale, min_scale;  // the loss scale, static or initial; the least one of a dynamic scale
    uint64_t scale_window, scale_hysteresis;
    const struct zerogauge_param *params;  // [param_count]
    const struct zerogauge_group *groups;  // [group_count]
};

// What step says of the step. The host has set everything to 0.
struct zerogauge_outcome {
    uint64_t t;         // updates applied so far
    double loss_scale;  // after the step; only where the case has one
    double norm;        // of the mean, unscaled gradient before clipping; only with has_norm
    int32_t skipped;    // 1: the step was skipped; only where the case has an overflow check
    int32_t has_norm;   // 0 on a skipped step
};

// What a rank holds on all tiers together, in bytes, and what it has sent in all steps. The host has set everything to
// UINT64_MAX: not told.
struct zerogauge_usage {
    uint64_t held_param, held_grad, held_optimizer, held_master, held_padding;
    uint64_t sent_reduce, sent_gather;    // bytes: of gradients, of parameters
    uint64_t calls_reduce, calls_gather;  // collectives
};

struct zerogauge_implementation {
    uint32_t contract;      // ZEROGAUGE_CONTRACT
    uint32_t struct_bytes;  // sizeof(struct zerogauge_implementation)
    const char *name, *version;

    // Begins a case. initial[param]: [count] in fp32, values that the precision represents; null for tied parameters.
    // initial itself is null for a case that resumes: everything comes from load. *context is passed to all other
    // calls; close is called only after ZEROGAUGE_OK.
    int (*open)(const struct zerogauge_case *c, const float *const initial[], void **context);

    // Forward and backward of one micro-step on one rank: forward uses the parameters as this rank has them; backward
    // gives the gradients loss scale x gradients[param], rounded to the precision. Steps count from 1, micro-steps and
    // ranks from 0. gradients[param]: [count] in the precision; null for what is frozen or unused. Tied parameters have
    // their own. seen[param]: [count] in the precision; null for what is unused. With gives_seen it is to be filled
    // with the parameter as forward used it.
    int (*gradients)(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                     void *const seen[]);

    // Reduces, and updates or skips.
    int (*step)(void *context, int32_t step, struct zerogauge_outcome *out);

    // A whole state as it is now (of parameters the masters, where there are any): [count] in fp32. Asked for
    // parameters that are not tied; moments and ZEROGAUGE_GRAD (the mean, unscaled, before clipping; not asked of
    // skipped steps) only for those that are not frozen. ZEROGAUGE_UNSUPPORTED: no gradients are kept, or no moments of
    // an unused parameter.
    int (*read)(void *context, int32_t state, int32_t param, float *out);

    // A checkpoint in your own format, in an existing folder; load finds there what save has left. Null: cases that
    // resume are declined.
    int (*save)(void *context, const char *folder);
    int (*load)(void *context, const char *folder);

    // Null: nothing is told.
    int (*usage)(void *context, int32_t rank, struct zerogauge_usage *out);

    void (*close)(void *context);

    uint64_t gives_seen;  // 1: gradients fills `seen`; 0: the requirements about gathering are not judged
};

// Never null, and always the same.
const struct zerogauge_implementation *zerogauge_implementation(void);

#ifdef __cplusplus
}
#endif

#endif
