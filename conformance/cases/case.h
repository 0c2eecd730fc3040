// SPDX-License-Identifier: Apache-2.0
// A case of the conformance suite: everything that an implementation is asked to train, as CONTRACT.md describes it. A
// case is written to a folder, and read from one; a folder that is read is untrusted.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/ledger/ledger.h"
#include "ref/mesh/mesh.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CASE_CONTRACT = 1,
    CASE_PARAM_MAX = 64,
    CASE_GROUP_MAX = 8,
    CASE_STEP_MAX = 64,
    CASE_WORLD_MAX = 64,
    CASE_ACCUMULATION_MAX = 16,
    CASE_REQUIREMENT_MAX = 32,
    CASE_SHAPE_MAX = 4,
    CASE_NAME_BYTES = 96,
    CASE_NOTE_BYTES = 256,
    CASE_REQUIREMENT_BYTES = 16,
    CASE_ELEMENTS_MAX = 1 << 24,  // of a parameter
    CASE_TOKENS_MAX = 512,        // counts of a case: steps x micro-steps x micro-batches
    CASE_TOKEN_COUNT_MAX = 1 << 30,
};

// Chapters of the suite beyond ZeRO over one line of ranks: a program must claim them (claims.h) to be asked.
enum case_option {
    OPTION_REPLICATE,  // replicas of shard groups: HSDP, MiCS
    OPTION_TENSOR,
    OPTION_PIPELINE,
    OPTION_EXPERT,
    OPTION_LORA,
    OPTION_TOKEN_MEAN,  // ranks and micro-steps weigh as many tokens as they count
    OPTION_MUON,
    OPTION_SEQUENCE,    // ranks that divide the sequences of a micro-batch among them: Ulysses, ring attention
    OPTION_FP8_GATHER,  // parameters are gathered in E4M3
    OPTION_COUNT
};

enum { CASE_OPTIONS_ALL = (1 << OPTION_COUNT) - 1 };

// Of a parameter, or of its gradient, on the tensor ranks (case_mesh.h).
enum case_part { PART_WHOLE, PART_CUT, PART_PARTIAL };

// Where a use of a parameter lies on the mesh.
struct case_placement {
    int pipeline;  // the stage that uses it
    enum case_part part;
    int dimension;  // along which it is cut
    bool is_expert;
    int expert;
};

struct case_param {
    char name[CASE_NAME_BYTES];  // letters, digits, '.', '_' and '-'; unique
    size_t shape[CASE_SHAPE_MAX];
    int shape_rank;  // 0: a scalar
    size_t count;    // elements; may be 0
    int group;
    bool frozen;
    bool used;                          // false: it has no gradient
    uint16_t unused_in[CASE_STEP_MAX];  // bit m of [K - 1]: micro-step m of step K leaves it out
    int tied_to;  // the index of an earlier parameter of the same shape that is not tied itself; -1: not tied
    struct case_placement placement;  // zeros in a case without a mesh
    bool is_adapter;                  // of LoRA
    int adapts;                       // an adapter: the index of the frozen parameter that it is added to
};

struct case_group {
    bool decoupled;            // AdamW; false: Adam with L2
    bool lr_by_step;           // lr is a list
    double lr[CASE_STEP_MAX];  // of step K: [K - 1]
    double beta1, beta2, eps, weight_decay;
    bool bias_correction;
    // Muon, of matrices: beta1 is its momentum, and beta2, eps and bias_correction mean nothing.
    bool muon, nesterov;
    bool matches_adamw;  // adjust_lr_fn: match_rms_adamw; false: original
    int ns_steps;
};

enum case_scale_kind { SCALE_NONE, SCALE_STATIC, SCALE_DYNAMIC };

struct case_loss_scale {
    enum case_scale_kind kind;
    double scale;  // static, or the initial one
    uint64_t window, hysteresis;
    double min_scale;
};

enum case_phase { PHASE_WHOLE, PHASE_SAVE, PHASE_RESUME };

// Where a case's numbers come from (generator.h): not in case.json, as the files hold them.
enum case_family {
    FAMILY_EXACT,     // no permitted order, division or scaling rounds
    FAMILY_ROUNDING,  // wide exponents: sums round
    FAMILY_LONE,      // like rounding, but in each element all ranks and micro-steps but one have zero: nothing to add
};

// One value in place of the family's.
enum { CASE_POKE_MAX = 8 };
struct case_poke {
    int step, micro, rank, param;  // param: index, of a use
    size_t element;
    float value;
};

struct case_data {
    enum case_family family;
    uint64_t seed;
    int unit;                         // exact: every gradient is a multiple of it in the grid
    int reach;                        // exact: the largest integer, in units; with same_mean that of the mean
    int spread;                       // same_mean: the largest integer of the deviations from the mean
    int lead;                         // exact: the integers of micro-step 0 are this many binary places larger
    int exponent_low, exponent_high;  // of the grid (exact) or of the values
    bool paired;       // exact: integers are powers of two, and in each micro-step all ranks' but one cancel in pairs
    bool same_mean;    // exact: the mean over ranks and micro-steps is the same at every world and accumulation
    bool square_norm;  // same_mean: the squares of each four elements' means add up to 36 squared units
    bool steps_alike;  // every step has the gradients of step 1
    uint64_t zero_steps;  // bit K - 1: all gradients of step K are zero
    int init_exponent;    // initial parameters are up to 2^this in magnitude, and not below an eighth of that
    int poke_count;
    struct case_poke pokes[CASE_POKE_MAX];
};

struct check_case {
    char name[CASE_NAME_BYTES];  // the folder's; letters, digits, '.', '_', '-' and '~'
    char note[CASE_NOTE_BYTES];
    char requirements[CASE_REQUIREMENT_MAX][CASE_REQUIREMENT_BYTES];
    int requirement_count;
    int world, steps, accumulation, stage;
    struct mesh mesh;  // zeros: none
    int sequence;      // data ranks that share each micro-batch, a part of its sequences each; 0 or 1: none
    enum dtype precision, communication_dtype, accumulation_dtype;
    int param_count, group_count;
    struct case_param params[CASE_PARAM_MAX];
    struct case_group groups[CASE_GROUP_MAX];
    bool has_tokens;                           // case_tokens.h
    unsigned char micro_steps[CASE_STEP_MAX];  // of step K: [K - 1]; 0: accumulation
    uint32_t tokens[CASE_TOKENS_MAX];          // [step - 1][micro][micro-batch]
    double gradient_clipping;
    struct case_loss_scale loss_scale;
    bool overflow_check;
    size_t reduce_bucket, allgather_bucket, prefetch_bucket, sub_group;  // elements
    bool overlap, contiguous_gradients, reduce_scatter;
    enum ledger_tier offload_optimizer, offload_param;  // device: none
    int delayed_update;
    enum case_phase phase;
    int checkpoint_step;
    bool weights_only;
    bool gathers_e4m3;  // in stage 3 and fp32
    bool exact;
    bool expects_refusal;
    // Not in case.json: what the suite itself knows.
    struct case_data data;
    char twin[CASE_NAME_BYTES];  // all cases with this word end every step in the same bits; "": none
};

// The first and last step that an answer to this case speaks of.
int case_first_step(const struct check_case *c);
int case_last_step(const struct check_case *c);

// The micro-steps of a step: fewer than `accumulation` where its list of counts of tokens is shorter.
int case_micro_steps(const struct check_case *c, int step);

// The parameter that a tied one is tied to; the parameter itself, if it is not tied.
int case_owner(const struct check_case *c, int param);

// True if a parameter has moments and is updated: it is neither frozen nor a tied use of another.
bool case_is_trained(const struct check_case *c, int param);

// True if Muon updates a parameter.
bool case_is_muon(const struct check_case *c, int param);

// True if a use of a parameter, itself or tied, gets a gradient; and true if any use of an owner does.
bool case_is_used(const struct check_case *c, int use);
bool case_has_gradient(const struct check_case *c, int param);

// True if the forward of a micro-step uses it, frozen or not.
bool case_is_seen_in(const struct check_case *c, int use, int step, int micro);

// True if a use gets a gradient in a micro-step, and if any use of an owner does in a step.
bool case_is_used_in(const struct check_case *c, int use, int step, int micro);
bool case_has_gradient_in(const struct check_case *c, int param, int step);

// True if some micro-steps use this use of a parameter, and others do not.
bool case_use_varies(const struct check_case *c, int use);

// All numbers of a case: initial parameters and gradients, in fp32, as the files hold them, that is, rounded to the
// precision.
struct case_values;
int case_values_open(const struct check_case *c, struct case_values **out);
void case_values_close(struct case_values *values);  // null-safe

// [count] of a parameter that is not tied.
const float *case_initial(const struct case_values *values, int param);

// [count] of a use (tied ones have their own); NULL for frozen and unused ones, zeros where the micro-step leaves it
// out. Step from 1, micro and rank from 0; on a mesh rank is a micro-batch (case_mesh.h).
const float *case_gradient(const struct case_values *values, int step, int micro, int rank, int param);

// Makes FOLDER/NAME with case.json, init.safetensors and grads-K.safetensors (of the steps that the phase answers).
// The folder must exist and NAME must not.
int case_write(const struct check_case *c, const struct case_values *values, const char *folder);

// As case_write, but case.json leaves out what would tell the right answer: `requirements`, `exact` and `expect`.
int case_write_untold(const struct check_case *c, const struct case_values *values, const char *folder);

// Writes the shortest digits that read back to the same double. Returns out.
enum { CASE_REAL_BYTES = 40 };
const char *case_real(double value, char out[CASE_REAL_BYTES]);

// Returns the text of the case's case.json, which the caller frees. case_text_of: without `tells` as case_write_untold
// writes it.
int case_text(const struct check_case *c, char **text, size_t *bytes);
int case_text_of(const struct check_case *c, bool tells, char **text, size_t *bytes);

// Reads FOLDER/case.json; `data` and `twin` stay empty. Anything that CONTRACT.md does not allow is ERR_USAGE with the
// file, the line and the key. A case that must be refused (`expect` is `refusal`) is read, too; a case without
// `expect` is taken to expect a refusal if its values make no sense.
int case_read(const char *folder, struct check_case *out);

// As case_read, from a text in memory; file is its name in messages.
int case_parse(const char *file, const char *text, size_t bytes, struct check_case *out);

// The names of the tensors in its files: "m0/r1/NAME" in grads-K, "m0/NAME" in rank-R/step-K.
enum { CASE_TENSOR_BYTES = CASE_NAME_BYTES + 32 };
void case_gradient_name(char out[CASE_TENSOR_BYTES], int micro, int rank, const char *name);
void case_seen_name(char out[CASE_TENSOR_BYTES], int micro, const char *name);
