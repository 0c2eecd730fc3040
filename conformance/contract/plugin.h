// SPDX-License-Identifier: Apache-2.0
// The host of plug-ins (contract.h): drives one through cases and writes its answers. It runs in a process of its own,
// as whatever a plug-in does to its process is done to the host.
#ifndef ZG_PLUGIN_H
#define ZG_PLUGIN_H

#include "conformance/contract/contract.h"

// All cases of the list in CASES/order.json, in that order: the answer to CASES/NAME is ANSWERS/NAME, which is made.
// world: of every case. state: {state}, or null where no case resumes. ERR_USAGE: the plug-in cannot be loaded, or is
// of another contract. An error of a case is printed with its name and ends nothing; at the end there is an ERR_CHECK
// that says how many there were.
int plugin_answer(const char *plugin, const char *cases, const char *answers, int world, const char *state);

// The same for one case, of any world.
int plugin_answer_one(const char *plugin, const char *case_folder, const char *answer_folder, const char *state);

// --- the parts ---

// Loads a plug-in and checks its table. *handle: for dlclose, once the table is used no more.
int plugin_load(const char *plugin, void **handle, const struct zerogauge_implementation **out);

// Answers the case in the folder with a folder, which is made if need be and must be empty. world: the case's; 0:
// whatever that is.
int plugin_answer_case(const struct zerogauge_implementation *implementation, const char *case_folder,
                       const char *answer_folder, int world, const char *state);

// A case as the table has it.
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

#endif
