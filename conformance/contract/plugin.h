// SPDX-License-Identifier: Apache-2.0
// The host of plug-ins (contract.h): drives a plug-in through cases and writes its answers. It runs in a separate
// process, because a plug-in can crash or corrupt its host.
#pragma once

#include "conformance/contract/contract.h"

// Answers the cases of `world` ranks in CASES/order.json, in that order, and skips the others: makes ANSWERS/NAME for
// CASES/NAME. state: {state}, or null if no case resumes. ERR_USAGE: the plug-in cannot be loaded or has another
// version of the contract, or no case has `world` ranks. An error of a case is printed with its name, and the next case
// follows; ERR_CHECK at the end counts the errors.
int plugin_answer(const char *plugin, const char *cases, const char *answers, int world, const char *state);

// The same for one case, of any world.
int plugin_answer_one(const char *plugin, const char *case_folder, const char *answer_folder, const char *state);

// --- the parts ---

// Loads a plug-in and checks its table. *handle: for dlclose after the last use of the table.
int plugin_load(const char *plugin, void **handle, const struct zerogauge_implementation **out);

// Answers the case in case_folder; makes answer_folder if it is missing, which must be empty. world: the expected
// number of ranks; 0: any.
int plugin_answer_case(const struct zerogauge_implementation *implementation, const char *case_folder,
                       const char *answer_folder, int world, const char *state);

// A case in the structs of the table.
struct plugin_view {
    struct zerogauge_case c;
    struct zerogauge_param *params;
    struct zerogauge_group *groups;
    uint64_t (*shapes)[4];
    char *json;
    char message[1024];
};

struct check_case;

// c must outlive the view. folder: the case's.
int plugin_view_open(const struct check_case *c, const char *folder, struct plugin_view *out);
void plugin_view_close(struct plugin_view *view);
