// SPDX-License-Identifier: Apache-2.0
// What is kept of many hosts' records: figures, not files, so that ten thousand hosts fit into memory. Texts are kept
// once and known by their number, from 1.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Objections to a host, the gravest first.
enum fleet_what {
    FLEET_DIGEST,      // its arithmetic has other bits than most hosts'
    FLEET_ARITHMETIC,  // its own checks found wrong bits
    FLEET_PREFLIGHT,   // failed
    FLEET_DIAGNOSTIC,  // a test of DCGM failed
    FLEET_UNVERIFIED,  // a record that contradicts itself or the format
    FLEET_SLOW,        // beyond the limit among its kind
    FLEET_INVALID,     // by its own baselines or counters
    FLEET_WARNED,      // a test of DCGM warned
    FLEET_FIRMWARE,    // not that of its hardware's other hosts
    FLEET_INCOMPLETE,  // a run did not measure what it should have
    FLEET_MISSING,     // a measurement that most hosts have
    FLEET_WHAT_COUNT,
};

// Pull: do not use it. Ordered from the gravest.
enum fleet_verdict { FLEET_PULL, FLEET_LOOK_AT, FLEET_NOT_MEASURED, FLEET_IN_SERVICE, FLEET_VERDICT_COUNT };

enum { FLEET_COMMAND_BYTES = 96 };

// One case of one run, as times. Nine tenths of its samples are slower than `fast`, and nine tenths faster than `slow`.
struct fleet_figure {
    uint32_t key;
    float time, fast, slow;
};

struct fleet_run {
    size_t order;                  // in which the runs were read
    char started[24];              // "": the record does not say when
    bool lasts;                    // its findings count in addition to the latest run's
    uint32_t program;              // "validate full", "bench links", "preflight", "dcgmi diag"
    uint32_t hardware, firmware;   // 0: the record does not say
    enum fleet_what what;          // the gravest of what it says against its host, and FLEET_WHAT_COUNT for nothing
    char *text;                    // of that; owned
    struct fleet_figure *figures;  // ascending keys, owned
    size_t figure_count, figure_room;
    json_t *digests;  // of operations, owned; null: none
};

struct fleet_reason {
    char *text;          // owned; null: there is none
    double deviations;   // from its kind's median, in robust deviations; NaN: no figure
    size_t times, runs;  // how many of its runs of that program show it; 0 runs: it is not about one
};

struct fleet_host {
    char *name;
    struct fleet_run *runs;  // of one program by time
    size_t run_count, run_room;
    uint32_t hardware, firmware;  // of its latest run that says so; 0: none
    size_t kind_count;            // hosts of its kind, with itself
    struct fleet_reason reasons[FLEET_WHAT_COUNT];
    char command[FLEET_COMMAND_BYTES];  // that measures what is slow, not whole or missing
    enum fleet_verdict verdict;
};

struct fleet {
    const char *folder;
    json_t *texts;       // numbers by text
    const char **names;  // [text_count], texts by number
    size_t text_count, text_room;
    json_t *indices;  // of hosts by name; null once they are sorted
    struct fleet_host *hosts;
    size_t host_count, host_room;
    size_t run_count, left_out_count;  // left out: files that are no records
};

// Reads the files *.jsonl and *.json of a folder, one for each processor at a time. ERR_USAGE: it has no record.
// ERR_MEMORY. Close the fleet in every case.
int fleet_read(const char *folder, struct fleet *out);
void fleet_close(struct fleet *fleet);

// The command that runs a program. A word from a file is none of a command unless it is of letters and underscores.
void fleet_command_of(const char *program, char command[FLEET_COMMAND_BYTES]);

// Returns the latest run of a host's program, null if it has none.
const struct fleet_run *fleet_latest(const struct fleet_host *host, uint32_t program);

// Adds a reason with a text from a format, unless there is one of its kind already. ERR_MEMORY.
int fleet_blame(struct fleet_host *host, enum fleet_what what, double deviations, size_t times, size_t runs,
                const char *format, ...) __attribute__((format(printf, 6, 7)));

// Sets all hosts' reasons and verdicts, and sorts the hosts by name. ERR_MEMORY.
int fleet_judge(struct fleet *fleet);

// The part of that which compares figures: adds what is slow, or missing, among hosts of one kind.
int fleet_judge_figures(struct fleet *fleet);
