// SPDX-License-Identifier: Apache-2.0
// What `zerogauge plan` is asked: options, and configurations and models that follow from them.
#ifndef ZG_PLAN_OPTIONS_H
#define ZG_PLAN_OPTIONS_H

#include "ref/config/config.h"
#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_WORLD_MAX = 32 };

struct plan_options {
    char *preset, *config_path, *model, *machine, *write, *html, *against, *paper, *claim;
    char **set;
    int world;
    char *world_list;
    int worlds[PLAN_WORLD_MAX];  // of a search, [world_count]; none: `world` alone
    size_t world_count;
    long long sequences;
    int json, explain, search;  // flags
    bool papers, claims;
    double tbw;  // terabytes that a node's drives bear; 0: not given
};

// ERR_USAGE. plan_options_close in any case.
int plan_options_parse(int argc, const char **argv, struct plan_options *out);
void plan_options_close(struct plan_options *options);

// The configuration with `changes` ("path.to.key=value", [change_count]) behind those of the options. Of a preset,
// whose buckets are made for the models that are trained here, buckets and sub-groups have DeepSpeed's own sizes.
int plan_options_config(const struct plan_options *options, const char *const changes[], size_t change_count,
                        struct config *config, struct config_notes *notes);

// The model, in the tiles that the configuration asks for.
int plan_options_model(const struct plan_options *options, const struct config *config, const struct model **out);

#endif
