// SPDX-License-Identifier: Apache-2.0
// Options of `zerogauge plan`, and the configurations and models that they select.
#pragma once

#include "plan/device/framework.h"
#include "ref/config/config.h"
#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_WORLD_MAX = 32, PLAN_MACHINE_MAX = 16, PLAN_RANKS_MAX = 100000 };  // worlds of a search, ranks of a world

// The aim of a search.
enum plan_goal {
    GOAL_FASTEST,   // most tokens/s
    GOAL_SMALLEST,  // fewest devices
    GOAL_CHEAPEST,  // most tokens for each device and second
    GOAL_LONGEST,   // longest sequence
};

struct plan_options {
    char *preset, *config_path, *model, *machine, *write, *against, *paper, *throughput, *memory;
    char **set;
    int world;
    char *world_list, *goal_name, *mesh;
    enum plan_goal goal;
    char *framework, *logits, *weights, *moments, *products;
    double checkpointed;             // the share of blocks; 0: not given
    struct framework_choice choice;  // that these name
    char *token_text;
    double tokens, days;                        // to train on, and the most that they may take; 0: not given
    double price;                               // of a device and hour; 0: not given
    double host_memory_gib, device_memory_gib;  // in place of the machine's; 0: not given
    int worlds[PLAN_WORLD_MAX];                 // of a search, [world_count]; none: only `world`
    size_t world_count;
    long long sequences, sequence_length, lora_rank;  // 0: not given
    int json, explain, search, tight;                 // flags
    bool papers, throughputs, memories;
    bool unshared;      // a search plans each configuration, also those that another one rules out; no option sets it
    size_t width;       // of the model, if there is a file of a configuration; 0: unknown
    const char *dtype;  // that the model's own file names; null: none
};

// The days that these take at a plan's speed.
double plan_options_days(const struct plan_options *options, double tokens_per_s);

// The given model, or the default one.
const char *plan_options_model_name(const struct plan_options *options);

// ERR_USAGE. Call plan_options_close in every case.
int plan_options_parse(int argc, const char **argv, struct plan_options *out);
void plan_options_close(struct plan_options *options);

// Adds what the file of a configuration says that is not given (config_plan_words), and prints it on stderr. ERR_USAGE.
int plan_options_of_file(struct plan_options *options);

// The configuration with `changes` ("path.to.key=value", [change_count]) applied after those of the options. A preset
// gets DeepSpeed's default sizes of buckets and sub-groups, because its own suit the small models that train here.
int plan_options_config(const struct plan_options *options, const char *const changes[], size_t change_count,
                        struct config *config, struct config_notes *notes);

// The model, cut into the configuration's tiles.
int plan_options_model(const struct plan_options *options, const struct config *config, const struct model **out);

// `zerogauge plan`
int plan_main(int argc, const char **argv);
