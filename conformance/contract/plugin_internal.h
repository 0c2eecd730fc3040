// SPDX-License-Identifier: Apache-2.0
// One case through a plug-in's table: what its parts share.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/contract/answer.h"
#include "conformance/contract/plugin.h"

struct plugin_run {
    const struct zerogauge_implementation *table;
    const char *folder, *answer, *state;  // the case's, the answer's, {state} or null
    struct check_case c;
    struct plugin_view view;
    void *context;
    float *initial[CASE_PARAM_MAX];
    void *gradients[CASE_PARAM_MAX];  // in the precision; NULL: it has none
    void *seen[CASE_WORLD_MAX][CASE_ACCUMULATION_MAX][CASE_PARAM_MAX];
    struct answer_step now;
};

// The error for what a call returned, with the plug-in's message; ERR_NONE for ZEROGAUGE_OK.
int plugin_result(struct plugin_run *run, const char *call, int result);

// The arrays of a case, which plugin_arrays_close frees, also after an error.
int plugin_arrays_open(struct plugin_run *run);
void plugin_arrays_close(struct plugin_run *run);

// Reads init.safetensors into run->initial.
int plugin_read_initial(struct plugin_run *run);

// Reads grads-STEP.safetensors and calls `gradients` for each micro-step and rank.
int plugin_feed(struct plugin_run *run, int step);
