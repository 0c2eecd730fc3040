// SPDX-License-Identifier: Apache-2.0
// Variants of a configuration: changes of it, planned, and the list of those that fit; searches among them, and advice
// for a plan that does not fit: the smallest changes that make it fit.
#pragma once

#include "base/err.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_options.h"

#include <stdio.h>

enum { CHOICE_CHANGE_MAX = 16, CHOICE_CHANGE_BYTES = 96 };

// Changes of keys, such as "zero_optimization.stage=3".
struct plan_changes {
    const char *name;     // may be null
    const char *list[8];  // null at the end
};

#define STAGE(n) "zero_optimization.stage=" #n
#define OPTIMIZER(tier) "zero_optimization.offload_optimizer.device=" tier
#define RATIO(part) "zero_optimization.offload_optimizer.ratio=" part
#define PARAMETERS(tier) "zero_optimization.offload_param.device=" tier
#define GRADIENTS(tier) "zerogauge.offload_gradient.device=" tier

#define CHECKPOINTS(on) "zerogauge.activation_checkpointing.enabled=" on
#define CHECKPOINTS_ON(tier) "zerogauge.activation_checkpointing.device=" tier

// A configuration that was planned.
struct plan_choice {
    char changes[CHOICE_CHANGE_MAX][CHOICE_CHANGE_BYTES];  // [change_count], "path.to.key=value"
    size_t change_count;
    const char *placement;        // of a search; else null
    char label[128];              // of a search: "zero3, all on nvme; checkpoints; 2 x 4 sequences"
    double price;                 // of a device and hour; 0: not given
    struct plan_setting setting;  // its `config` is null once the choice is in a list
    struct plan plan;
};

// A machine to search, and the price of a device and hour; 0: not given.
struct plan_priced {
    struct plan_machine machine;
    double price;
};

// Those that fit, or with --tight may. The list is owned; tried counts all.
struct plan_choices {
    struct plan_choice *list;
    size_t count, capacity, tried;
    size_t tight, late;          // of those that are not in the list: tight, slower than --days
    struct plan_choice closest;  // of those that do not fit, the one that lacks least
    double closest_lack;         // 0: there is none
    double began_s, shown_s;     // of a search, on clock_now_s: its begin, and its last line of progress; 0: none yet
    // Why a configuration was refused, and whether another one was for another reason.
    char refusal[ERR_MESSAGE_BYTES];
    bool is_refused_otherwise;
};

void plan_choice_change(struct plan_choice *choice, const char *change);
void plan_choice_change_all(struct plan_choice *choice, const struct plan_changes *changes);

// The configuration of a choice, in the world of its setting.
int plan_choice_config(const struct plan_options *options, const struct plan_choice *choice, struct config *out);

// Plans a choice in the options' world and keeps a copy if it fits. A configuration that is invalid or that the machine
// does not support does not fit; other errors are returned.
int plan_choices_try(const struct plan_options *options, const struct plan_machine *machine, struct plan_choice *choice,
                     struct plan_choices *found);

// Plans the memory of a choice that needs no more of the device than others do. True if none of these can be found or
// be the closest: by more than the closest of those found lacks, its device is too small. It is not counted.
int plan_choices_rule_out(const struct plan_options *options, const struct plan_machine *machine,
                          struct plan_choice *least, const struct plan_choices *found, bool *out);

// Sorts by the goal, the best first, and then by time per token.
void plan_choices_sort(struct plan_choices *found, enum plan_goal goal);

// Tries changes of the configuration and prints those after which the plan fits, the fastest first; then what
// plan_advise_shape finds; or that nothing does. Prints nothing if the plan fits already. ERR_MEMORY.
int plan_advise(const struct plan_options *options, const struct plan_setting *setting, const struct plan *plan,
                FILE *out);

// Finds the options after which a choice fits that does not: the fewest devices, the longest sequence, adapters in
// place of training all weights. "--world 6, --sequence-length 4096 or --lora 16"; "" if none does. ERR_MEMORY.
enum { ADVICE_BYTES = 128 };
int plan_advise_shape(const struct plan_options *options, const struct plan_machine *machine,
                      const struct plan_choice *choice, char out[ADVICE_BYTES]);

// Tries worlds, placements, batches, checkpoints and sizes of buckets and prefetching, with the same number of
// sequences in a step as the options' configuration has in options->world, or the next larger one that a world divides.
// The goals "smallest" and "cheapest" try worlds of up to 1,024 devices unless given, "longest" ever longer sequences
// and then, to a sixteenth, those between the last two.
// Prints those that fit, the best first, as a table or as JSON lines, and writes the first one's configuration to
// options->write. ERR_CHECK: nothing fits; the message says what the closest one lacks.
// Of several machines, [machine_count], each has its price in options->price's place.
int plan_search(const struct plan_options *options, const struct plan_priced machines[], size_t machine_count,
                FILE *out);

// Shows on a terminal how far a search is that takes longer than two seconds, several times a second. In
// plan_search_print.c, as is plan_search_print.
void plan_search_progress(struct plan_choices *found, double now_s);

// Prints what was found, sorted by the goal, and writes the first one to options->write.
int plan_search_print(const struct plan_choices *found, const struct plan_options *options, FILE *out);
