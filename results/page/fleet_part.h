// SPDX-License-Identifier: Apache-2.0
// The hosts and runs of one file of a fleet, while it is read.
#pragma once

#include "results/page/fleet.h"
#include "results/record/record_check.h"

enum { FLEET_PART_MAX = 257, FLEET_TEXT_BYTES = 4096 };

// A file's runs: one, or one for each host of a launcher.
struct fleet_part {
    char host[256];
    struct fleet_run *run;  // null until all hosts are known
};

struct fleet_source {
    struct fleet *fleet;
    const char *path, *name;  // name: below the fleet's folder
    char host[PATH_MAX];      // by its place in the folder
    struct fleet_part parts[FLEET_PART_MAX];
    size_t part_count;
};

// The number of a text. ERR_MEMORY.
int fleet_number(struct fleet *fleet, const char *text, uint32_t *out);

// Adds a part for a host unless there is one; the part of a host, or null.
void fleet_name_part(struct fleet_source *source, const char *host);
struct fleet_part *fleet_part_of(struct fleet_source *source, const char *host);

// Gives every part a run of the program. ERR_MEMORY.
int fleet_add_runs(struct fleet_source *source, const char *program);

// Says something against a run's host; the gravest is kept, and of several the first. ERR_MEMORY.
int fleet_say(struct fleet_run *run, enum fleet_what what, const char *text);

// The host of that name, which is added if there is none; stays where it is until another is added. ERR_MEMORY.
int fleet_host_of(struct fleet *fleet, const char *name, struct fleet_host **out);

// Takes a verified result file. ERR_MEMORY.
int fleet_take_result(struct fleet_source *source, const struct result_file *file);
