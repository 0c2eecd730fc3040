// SPDX-License-Identifier: Apache-2.0
// The contract as C functions: an implementation is a shared object, which `zerogauge check --plugin ./mine.so` loads
// in a separate process and drives through all cases. This file needs only a C or C++ compiler: copy it. CONTRACT.md
// defines the terms; adapters/contract_example.c is a complete implementation.
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
// All ranks live in one process. If your ranks must run concurrently, keep the arguments of `gradients` and begin in
// the call for the last rank, or in `step`.
//
// Each side frees the memory that it allocates. Arguments belong to the host and are valid until the call returns,
// except struct zerogauge_case and everything that it points to, which stay valid until close has returned. Arrays do
// not overlap. Tensors are full (not sharded) and in row-major order. Every call returns a zerogauge_result; on
// anything but ZEROGAUGE_OK, write the reason to the message in struct zerogauge_case.
#ifndef ZEROGAUGE_CONTRACT_H
#define ZEROGAUGE_CONTRACT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Version of this table and its structs. A host accepts only its own version and its own sizes of structs.
#define ZEROGAUGE_CONTRACT 1

enum zerogauge_result {
    ZEROGAUGE_OK = 0,
    ZEROGAUGE_UNSUPPORTED = 1,  // from open: declines the case. From read: the implementation does not keep this state
    ZEROGAUGE_REFUSED = 2,      // from open: rejects the case's configuration as invalid
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
    int32_t frozen, used;   // 0 or 1; an unused parameter has no gradient in any step
    int32_t tied_to;        // index of the parameter of which this is another use; -1: none
    int32_t reserved;       // 0
};

struct zerogauge_group {
    const double *lr;  // [steps]: of step K in [K - 1]
    double beta1, beta2, eps, weight_decay;
    int32_t decoupled;  // 1: AdamW; 0: Adam with L2
    int32_t bias_correction;
};

// case.json, parsed: a plug-in needs no other source.
struct zerogauge_case {
    uint64_t struct_bytes;  // of this struct, as the host has it
    const char *name;
    const char *json;  // the whole text of case.json
    char *message;     // [message_bytes]: the reason for a result other than ZEROGAUGE_OK, zero-terminated
    uint64_t message_bytes;
    int32_t world, steps, accumulation, stage;
    int32_t first_step, last_step;                               // the steps to answer
    int32_t precision, communication_dtype, accumulation_dtype;  // enum zerogauge_dtype
    int32_t param_count, group_count;
    int32_t overflow_check;                                                // 0 or 1
    int32_t reserved_flags[2];                                             // 0
    int32_t delayed_update;                                                // 0: none
    int32_t loss_scale;                                                    // enum zerogauge_scale
    int32_t offload_optimizer, offload_param;                              // enum zerogauge_tier
    int32_t phase;                                                         // enum zerogauge_phase
    int32_t checkpoint_step, weights_only;                                 // of a case with a phase
    int32_t overlap, contiguous_gradients, reduce_scatter;                 // hints, 0 or 1
    int32_t reserved;                                                      // 0
    uint64_t reduce_bucket, allgather_bucket, prefetch_bucket, sub_group;  // hints, in elements
    double gradient_clipping;                                              // the maximum norm; 0: off
    double scale, min_scale;  // the static or initial loss scale; the minimum of a dynamic one
    uint64_t scale_window, scale_hysteresis;
    const struct zerogauge_param *params;  // [param_count]
    const struct zerogauge_group *groups;  // [group_count]
};

// The outcome of a step. The host initialises all fields to 0.
struct zerogauge_outcome {
    uint64_t t;         // updates applied so far
    double loss_scale;  // after the step; only where the case has one
    double norm;        // of the mean, unscaled gradient before clipping; only with has_norm
    int32_t skipped;    // 1: the step was skipped; only where the case has an overflow check
    int32_t has_norm;   // 0 on a skipped step
};

// The bytes that a rank holds on all tiers together, and its traffic over all steps. The host initialises all fields to
// UINT64_MAX, which means "not reported".
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
    // initial itself is null for a case that resumes: load restores everything. The host passes *context to all other
    // calls, and calls close only after ZEROGAUGE_OK.
    int (*open)(const struct zerogauge_case *c, const float *const initial[], void **context);

    // Forward and backward of one micro-step on one rank: forward uses the parameters as this rank has them; backward
    // gives the gradients loss scale x gradients[param], rounded to the precision. Steps count from 1, micro-steps and
    // ranks from 0. gradients[param]: [count] in the precision; null for frozen and unused parameters, and in
    // micro-steps that do not use it. Each tied use has its own. seen[param]: [count] in the precision; null for unused
    // parameters, and in such micro-steps. With gives_seen, fill it with the parameter as forward used it.
    int (*gradients)(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                     void *const seen[]);

    // Reduces, and updates or skips.
    int (*step)(void *context, int32_t step, struct zerogauge_outcome *out);

    // Copies a full state as it is after the step: [count] in fp32; of parameters the masters, if there are any. The
    // host asks for parameters that are not tied, and for moments and ZEROGAUGE_GRAD (the mean, unscaled, before
    // clipping; not after skipped steps) of those that are not frozen. ZEROGAUGE_UNSUPPORTED: the implementation keeps
    // no gradients, or no moments of this unused parameter.
    int (*read)(void *context, int32_t state, int32_t param, float *out);

    // Write and read a checkpoint in your own format, in an existing folder. Both null: the host declines cases that
    // resume.
    int (*save)(void *context, const char *folder);
    int (*load)(void *context, const char *folder);

    // The usage of a rank. Null: the implementation does not report usage.
    int (*usage)(void *context, int32_t rank, struct zerogauge_usage *out);

    void (*close)(void *context);

    uint64_t gives_seen;  // 1: gradients fills `seen`; 0: the gathering requirements are UNSUPPORTED
};

// Returns the table: never null, and the same in every call.
const struct zerogauge_implementation *zerogauge_implementation(void);

#ifdef __cplusplus
}
#endif

#endif
