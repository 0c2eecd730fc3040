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

// Says something against the source's host, of a record that nothing else is taken from: the first line of a text that
// names the file, or words about it. ERR_MEMORY.
int fleet_say_of_record(const struct fleet_source *source, enum fleet_what what, const char *text);
int fleet_say_of_file(const struct fleet_source *source, enum fleet_what what, const char *words);

// Takes a verified result file. ERR_MEMORY.
int fleet_take_result(struct fleet_source *source, const struct result_file *file);

// Adds a figure, by name, unit, case, median, p10, p90 and lower_is_better of a record. Sort a run's figures when all
// are taken; of one case the slowest is kept. ERR_MEMORY.
int fleet_take_bench(struct fleet *fleet, const json_t *record, struct fleet_run *run);
void fleet_sort_figures(struct fleet_run *run);

// True if a value is the output of `dcgmi diag` or `dcgmi mndiag` with `--json`, or of nccl-tests by `-J FILE`. Takes
// such a value, for a source without parts. Nothing of a value is trusted. ERR_MEMORY.
bool fleet_is_dcgm(const json_t *value);
int fleet_take_dcgm(struct fleet_source *source, const json_t *value);
bool fleet_is_nccl(const json_t *value);
int fleet_take_nccl(struct fleet_source *source, const json_t *value);
