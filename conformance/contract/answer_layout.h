// SPDX-License-Identifier: Apache-2.0
// Which tensors belong into each file of an answer to a case: the one list that writing and checking share.
#ifndef ZG_ANSWER_LAYOUT_H
#define ZG_ANSWER_LAYOUT_H

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
    ENTRY_NORM
};

struct answer_entry {
    char name[CASE_TENSOR_BYTES];
    enum answer_entry_kind kind;
    int param;      // index; -1: a scalar
    int micro;      // of ENTRY_SEEN
    bool required;  // false: a file may do without it
};

struct answer_layout {
    const struct check_case *c;
    struct answer_entry *entries;  // in the order in which they are written
    size_t count;
    uint64_t header_bytes_max, file_bytes_max;  // no honest file is larger
};

// step-K.safetensors, and rank-R/step-K.safetensors. The case must outlive the layout.
int answer_layout_of_step(const struct check_case *c, struct answer_layout *out);
int answer_layout_of_seen(const struct check_case *c, struct answer_layout *out);
void answer_layout_close(struct answer_layout *layout);

// Finds every entry in an open file: found[i] is the tensor of entries[i], or null. ERR_USAGE: a tensor is missing, of
// another type or shape, or does not belong there; the message names it.
int answer_layout_match(const struct answer_layout *layout, const struct safetensors *file,
                        const struct safetensors_tensor *found[]);

#endif
