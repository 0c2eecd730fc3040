// SPDX-License-Identifier: Apache-2.0
// The tensors of each file of an answer. Writing and checking an answer share this list.
#pragma once

#include "conformance/cases/case.h"
#include "ref/checkpoint/safetensors.h"

enum answer_entry_kind {
    ENTRY_PARAM,
    ENTRY_EXP_AVG,
    ENTRY_EXP_AVG_SQ,
    ENTRY_GRAD,
    ENTRY_SEEN,
    ENTRY_T,
    ENTRY_SKIPPED,
    ENTRY_LOSS_SCALE,
    ENTRY_NORM,
    ENTRY_LOSS,
    ENTRY_TOKENS
};

struct answer_entry {
    char name[CASE_TENSOR_BYTES];
    enum answer_entry_kind kind;
    int param;      // index; -1: a scalar
    int micro;      // of ENTRY_SEEN
    bool required;  // false: a file may omit it
};

struct answer_layout {
    const struct check_case *c;
    struct answer_entry *entries;  // in the order of writing
    size_t count;
    uint64_t header_bytes_max, file_bytes_max;  // larger files are refused unread
};

// The layouts of step-K.safetensors and of rank-R/step-K.safetensors, which on a mesh has the rank's parts. The case
// must outlive the layout.
int answer_layout_of_step(const struct check_case *c, struct answer_layout *out);
int answer_layout_of_seen(const struct check_case *c, int step, int rank, struct answer_layout *out);
void answer_layout_close(struct answer_layout *layout);

// The shape of a parameter's entry; returns its number of dimensions.
int answer_entry_shape(const struct answer_layout *layout, const struct answer_entry *entry,
                       size_t shape[CASE_SHAPE_MAX]);

// Finds every entry in an open file: found[i] is the tensor of entries[i], or null if the file omits it. ERR_USAGE: a
// required tensor is missing, has another type or shape, or is not in the list; the message names it.
int answer_layout_match(const struct answer_layout *layout, const struct safetensors *file,
                        const struct safetensors_tensor *found[]);
