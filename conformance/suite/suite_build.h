// SPDX-License-Identifier: Apache-2.0
// The tables of cases. A row is a topic: a function and settings that make its case, and the worlds, stages and
// precisions to make it for.
#pragma once

#include "conformance/cases/case.h"

// One case of a row. `variant` ends its name; "" for none.
struct suite_item {
    int world, stage;
    enum dtype precision;
    char variant[32];
    bool own_data;            // its data differs from that of the row's other variants
    int resume_world;         // ranks of the half that resumes; 0: the same
    struct mesh resume_mesh;  // of a case on a mesh: that of the half that resumes
    int resume_sequence;      // of that mesh: ranks that share a micro-batch; 0: each has its own
};

// A grid is a list of "WORLDS:STAGES:PRECISIONS[:VARIANTS]", separated by blanks: "2,3:0123:fb:cpu,nvme". The
// precisions are f (fp32), b (bf16) and h (fp16). The note is part of the frozen case.
struct suite_row {
    const char *topic, *note;
    void (*make)(struct check_case *c, struct suite_item *item);  // null: suite_model
    const char *set;                                              // behind it, for suite_set
    const char *quick, *full;                                     // full: cases in addition to quick
};

// The tables; a row without a topic ends each.
extern const struct suite_row suite_adam[], suite_partition[], suite_reduce[], suite_precision[], suite_clip[],
    suite_gather[], suite_tier[], suite_checkpoint[], suite_other[];
extern const struct suite_row suite_edge[], suite_mesh[], suite_lora[];                   // from version 2 on
extern const struct suite_row suite_partner[], suite_partner_tier[], suite_ends[];        // from version 3 on
extern const struct suite_row suite_tokens[], suite_muon[], suite_layout[], suite_fp8[];  // from version 3 on
extern const struct suite_row suite_lora_buckets[];                                       // from version 3 on

// A case with the settings that all have in common, unless they say otherwise: four steps of AdamW, and in fp16 a
// static loss scale. Its numbers are drawn by the seed.
void suite_begin(struct check_case *c, int world, int stage, enum dtype precision, uint64_t seed);

// Sets the open parameters of the exact family to the largest values that keep every sum over `world` ranks, or fewer,
// within the significand of every dtype that may hold it.
void suite_fit(struct check_case *c, int world);

// Divides a positive number by two until it is odd.
int suite_odd_part(int value);

// Appends a parameter of group 0 called t0, t1, ...: rows x columns, or `rows` elements in one dimension if columns is
// 0. Returns its index.
int suite_tensor(struct check_case *c, size_t rows, size_t columns);

// Gives a matrix a third dimension, of no elements.
void suite_empty_third(struct check_case *c, int param);

// Appends six tensors of uneven sizes, 180 elements in total.
void suite_model(struct check_case *c);

// Micro-steps whose gradients are 256 times an integer, then an integer: bf16 cannot hold their sum, which is fp32.
void suite_trap(struct check_case *c, int micro_steps);

// Appends a parameter that is tied to an earlier one, `owner`. Returns its index.
int suite_tie(struct check_case *c, int owner);

// Gives the stages of the mesh's pipeline the parameters in their order, as evenly as it goes.
void suite_place_stages(struct check_case *c);

// Sets the mesh that the variant names, and where it names two that of the half that resumes. Cuts a parameter over
// tensor ranks along a dimension.
void suite_set_mesh(struct check_case *c, struct suite_item *item);
void suite_cut(struct check_case *c, int param, int dimension);

// Parameters that are cut, whole, partial, tied and experts, on the mesh that the variant begins with.
void suite_mesh_all(struct check_case *c, struct suite_item *item);

// Sets the group's learning rate by step; the last of `count` holds for all further steps.
void suite_lr(struct check_case *c, int group, const double *lr, int count);

// As most trainers do: parameters of less than two dimensions, biases and norms, are a group without decay.
void suite_split_decay(struct check_case *c);

// Three groups that take turns, of which one differs in a respect: "mode", "correction", "schedule", "decay"; "all": in
// all of these.
void suite_differ(struct check_case *c, const char *respect);

// suite_model, of which groups differ in the respect that the variant names.
void suite_mixed(struct check_case *c, struct suite_item *item);

// suite_model with states on the tier that the variant begins with, and with one more matrix.
void suite_placed(struct check_case *c, struct suite_item *item);
void suite_offload(struct check_case *c, struct suite_item *item);

// Sets one element of one rank's gradient in one micro-step to `value`.
void suite_poke(struct check_case *c, int step, int micro, int rank, int param, size_t element, float value);

// Applies settings in their order, "NAME=NUMBER,..." separated by blanks. Fields of the case, of its data and of group
// 0 have their names (suite_set.c), a flag without a number is set, and
//   tensors, more_tensors=SHAPE,...      "7x5" or "13", in place of the tensors, or behind them
//   lr=RATE,...  exponents=LOW,HIGH      of all steps or of each; of the grid
//   buckets=N  clip=N                    of reduce, gather and prefetch; the norm of suite_fours divided by N
//   scale=S  dynamic=S,WINDOW,HYSTERESIS,MINIMUM  checked: suite_check_overflow
//   poke=STEP,MICRO,RANK,PARAM,ELEMENT,VALUE      rank -1: the last
//   zero_steps, tied, frozen=INDEX,...   steps from 1, owners, parameters
//   split_decay, differ=RESPECT, trap    suite_split_decay, suite_differ, suite_trap of two micro-steps
void suite_set(struct check_case *c, const char *settings);

// Appends parameters, as `more_tensors` names them.
void suite_tensors(struct check_case *c, const char *shapes);

// Sets the overflow check, and in fp16 a dynamic loss scale of 1024.
void suite_check_overflow(struct check_case *c);

// 400 elements in tensors whose sizes are multiples of four, and data whose squares sum to 36 in each four elements of
// the mean: the norm is exactly 60 grid units in any order of addition.
void suite_fours(struct check_case *c, struct suite_item *item);

// Gives the parameters to `count` groups in turn.
void suite_groups(struct check_case *c, int count);

// Sets a dynamic loss scale, and the overflow check that it needs.
void suite_dynamic(struct check_case *c, double scale, uint64_t window, uint64_t hysteresis, double min_scale);

// The number after a variant's letters: 64 for the variant "b64" and the letters "b"; `fallback` if the variant is not
// these letters and a number.
int suite_number(const struct suite_item *item, const char *letters, int fallback);
