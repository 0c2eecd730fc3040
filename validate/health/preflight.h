// SPDX-License-Identifier: Apache-2.0
// One node's preflight, and what all nodes make of it together.
#pragma once

#include "validate/health/exposure.h"
#include "validate/health/health_options.h"
#include "cli/info/health_counters.h"
#include "ref/comm/comm.h"

#include <jansson.h>

#include <stdbool.h>

struct preflight {
    struct health_options common;
    char *at_least;
    char *save, *since, *history, *after_repair;  // files, or null
    int repeat_failed;
    int64_t started_s;  // since 1970
    double seconds;
    double memory_gbs, disk_gbs, link_gbs;  // at least; 0: any
    struct health_machine machine;
    struct health_exposure exposure;
    struct health_counters before, after;
    char digests[HEALTH_OPERATION_MAX][33];
    char device_text[HEALTH_TEXT_MAX];  // of the check of GPUs that found nothing; "": there was none
    json_t *checks;                     // array of {"check", "state": "ok" | "FAIL" | "skip" | "was", "text"}
    bool failed;
};

// This host's name, ended by zeros.
void preflight_host(char host[256]);

// Appends a check; state: "ok", "FAIL", which fails the node, "skip", or "was", of an earlier preflight.
void preflight_add(struct preflight *preflight, const char *check, const char *state, const char *text);

// Replaces `before` by the counters that this host had at the end of the preflight that wrote the file `since`.
// ERR_USAGE: not such a file, or it lacks this host.
int preflight_since(struct preflight *preflight);

// Appends what this host's checks said in the preflight that wrote the file `after_repair`, in the state "was".
// ERR_USAGE: as preflight_since.
int preflight_before_repair(struct preflight *preflight);

// A host that could not be checked, for the reason `code` with its message, fails, and the others go on; where no host
// could be, returns that. All ranks call it.
int preflight_without_some(struct preflight *preflight, struct comm *comm, int code);

// Fails a host whose name another one has, too, and one whose clock is not within a minute of more than half of the
// ranks'. All ranks call it.
int preflight_place(struct preflight *preflight, struct comm *comm);

// Says what is wrong with the clock of a rank among those of all, in seconds, [count]; "": nothing.
void preflight_judge_clock(const int64_t clocks_s[], int count, int rank, char text[160]);

// Uses the links between the ranks of a launcher and appends their check. All ranks call it.
int preflight_link(struct preflight *preflight, struct comm *comm);

// Appends a check to a node's line that fails it.
void preflight_fail(json_t *node, const char *check, const char *text);

// Reads the file `history`, in which each preflight has left a short line for each host, fails those that failed
// for the third time or more in 30 days, this time included, since they were repaired last, and adds this preflight's
// lines. Lines of more than 90 days ago go. A file that is not there begins. ERR_USAGE: it has another line; ERR_IO.
int preflight_history(const struct preflight *preflight, json_t *const nodes[], int count);

// Fails the nodes whose digest of an operation is not that of more than half of the nodes that ran it: a node whose
// cores agree with each other may still differ from the other nodes. nodes: a line of JSON each, [count].
void preflight_compare(json_t *nodes[], int count);

// Rank 0, or the only one, prints what all ranks found: a line for each check, of several nodes for each that failed,
// and how many did not; or one of JSON for each node, which it also writes to the file `save`. *healthy: every node is,
// and most of them have the same bits; set on rank 0 alone.
int preflight_gather(const struct preflight *preflight, bool *healthy);

// Where the nodes cannot gather, as one has died: each prints what it found by itself, so that nothing is lost.
void preflight_report_alone(const struct preflight *preflight);
