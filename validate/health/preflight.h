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
    char *save, *since;  // files, or null
    double seconds;
    double memory_gbs, disk_gbs, link_gbs;  // at least; 0: any
    struct health_machine machine;
    struct health_exposure exposure;
    struct health_counters before, after;
    char digests[HEALTH_OPERATION_MAX][33];
    char device_text[HEALTH_TEXT_MAX];  // of the check of GPUs that found nothing; "": there was none
    json_t *checks;                     // array of {"check", "state": "ok" | "FAIL" | "skip", "text"}
    bool failed;
};

// Appends a check; state: "ok", "FAIL", which fails the node, or "skip".
void preflight_add(struct preflight *preflight, const char *check, const char *state, const char *text);

// Replaces `before` by the counters that this host had at the end of the preflight that wrote the file `since`.
// ERR_USAGE: not such a file, or it lacks this host.
int preflight_since(struct preflight *preflight);

// Uses the links between the ranks of a launcher and appends their check. All ranks call it.
int preflight_link(struct preflight *preflight, struct comm *comm);

// Fails the nodes whose digest of an operation is not that of more than half of the nodes that ran it: a node whose
// cores agree with each other may still differ from the other nodes. nodes: a line of JSON each, [count].
void preflight_compare(json_t *nodes[], int count);

// Rank 0, or the only one, prints what all ranks found: a line for each check, or one of JSON for each node, which it
// also writes to the file `save`. *healthy: every node is, and most of them have the same bits; set on rank 0 alone.
int preflight_gather(const struct preflight *preflight, bool *healthy);
