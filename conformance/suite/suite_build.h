// SPDX-License-Identifier: Apache-2.0
// How the list of cases is written: rows of topics, each with a function that makes the case and the worlds, stages and
// precisions it is wanted in.
#ifndef ZG_SUITE_BUILD_H
#define ZG_SUITE_BUILD_H

#include "conformance/cases/case.h"

// One case of a row. VARIANT is what its name ends with, "" for none.
struct suite_item {
    int world, stage;
    enum dtype precision;
    char variant[32];
    bool own_data;     // its numbers are not those of the row's other variants
    int resume_world;  // of the resuming half; 0: the same
};

// A grid is a list of "WORLDS:STAGES:PRECISIONS[:VARIANTS]", separated by blanks: "2,3:0123:fb:cpu,nvme". The
// precisions are f (fp32), b (bf16) and h (fp16).
struct suite_row {
    const char *topic, *note;
    void (*make)(struct check_case *c, struct suite_item *item);
    const char *quick, *full;  // full: what it has beyond quick
};

// The tables; a row without a topic ends each.
extern const struct suite_row suite_adam[], suite_partition[], suite_reduce[], suite_precision[], suite_clip[],
    suite_gather[], suite_tier[], suite_checkpoint[], suite_other[];

// Appends a parameter of group 0 called t0, t1, ...: rows x columns, or one-dimensional where columns is 0. Returns its
// index.
int suite_tensor(struct check_case *c, size_t rows, size_t columns);

// A few tensors of uneven sizes, 180 elements together.
void suite_model(struct check_case *c);

// One that is tied to an earlier one.
int suite_tie(struct check_case *c, int owner);

// The group's learning rate by step: `count` of them, the last one for what is left.
void suite_lr(struct check_case *c, int group, const double *lr, int count);

void suite_poke(struct check_case *c, int step, int micro, int rank, int param, size_t element, float value);

// A dynamic loss scale with the check for overflow that it needs.
void suite_dynamic(struct check_case *c, double scale, uint64_t window, uint64_t hysteresis, double min_scale);

// The number behind a variant's letters: "b64" with "b" is 64; fallback where it does not begin so.
int suite_number(const struct suite_item *item, const char *letters, int fallback);

#endif
