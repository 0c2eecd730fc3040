// SPDX-License-Identifier: Apache-2.0
// Numbers of a case that do not come from the generator: from a folder's files, or from whoever fills them in.
#pragma once

#include "conformance/cases/case.h"

// Zeros. ERR_MEMORY. Close with case_values_close.
int case_values_blank(const struct check_case *c, struct case_values **out);

// A copy for a case with the same parameters, steps, micro-steps and world. ERR_MEMORY.
int case_values_copy(const struct check_case *c, const struct case_values *from, struct case_values **out);

// The numbers themselves, [count], for writing; null where case_initial and case_gradient are.
float *case_values_initial(struct case_values *values, int param);
float *case_values_gradient(struct case_values *values, int step, int micro, int rank, int param);

// Reads init.safetensors and the gradients of the steps that the case answers from its folder, which is untrusted; the
// gradients of other steps are zeros. On a mesh, the parts of tensor ranks are put together, shares are summed, and an
// expert's gradient is given to the first data rank of its group. ERR_USAGE: a file or a tensor is missing, or not what
// case.json and CONTRACT.md say; the message names it.
int case_values_read(const struct check_case *c, const char *folder, struct case_values **out);

// Gives a resuming half, of whose numbers `resumed` are, the steps before its checkpoint: they decide t and the loss
// scale with which it begins. saved: the numbers of the saving half, of the same parameters. Where the halves have
// different numbers of data ranks, the first gets of each element the largest magnitude of all, which overflows where
// any does, and the others get zeros.
void case_values_precede(const struct check_case *save, struct case_values *saved, const struct check_case *resume,
                         struct case_values *resumed);
