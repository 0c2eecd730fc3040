// SPDX-License-Identifier: Apache-2.0
// Fault injection (--inject), for tests of how a fault ends. Storage faults occur only between a transfer and the
// engine that carries its requests; the training loop provokes the faults of ranks.
//
//   nvme:eio@K     request K fails with an input/output error
//   nvme:short@K   the kernel moves only half of request K
//   nvme:torn@K    the first write from request K on reaches the medium only by half, and success is reported
//   nvme:enospc@K  the first write or allocation from request K on finds the file system full
//   nvme:delay@K   request K is delayed by a second
//   nvme:flip@K    a bit of request K changes on the medium: before it is read, or after it was written
//   rank:R:die@S   rank R leaves in step S with an error that it reports
//   rank:R:kill@S  SIGKILL ends the process of rank R in step S, without a report
//
// Requests count from 1 on each rank; storage faults apply to every rank.
#pragma once

#include "ref/tier/io.h"

#include <stdatomic.h>

enum { INJECT_FAULT_MAX = 16 };

enum inject_kind {
    INJECT_EIO,
    INJECT_SHORT,
    INJECT_TORN,
    INJECT_ENOSPC,
    INJECT_DELAY,
    INJECT_FLIP,
    INJECT_DIE,  // this and the following kinds concern one rank
    INJECT_KILL,
    INJECT_KIND_COUNT
};

struct inject_fault {
    enum inject_kind kind;
    uint64_t at;  // request or step, from 1
    int rank;     // from INJECT_DIE on
};

struct inject_plan {
    struct inject_fault faults[INJECT_FAULT_MAX];
    int fault_count;
};

// Adds one fault or several, separated by commas; ERR_USAGE names the accepted forms.
int inject_parse(const char *text, struct inject_plan *plan);

// ERR_USAGE: a fault can never occur: `world` ranks have no such rank, `step_count` steps no such step, or nothing is
// on NVMe. world 0: no rank can leave.
int inject_check(const struct inject_plan *plan, int world, uint64_t step_count, bool uses_nvme);

// Returns the first step, from 1, in which the plan ends the rank by INJECT_DIE or INJECT_KILL; 0: none.
uint64_t inject_death_step(const struct inject_plan *plan, int rank, enum inject_kind kind);

// One rank's faults and progress. The threads of the rank share it.
struct inject {
    struct inject_plan plan;
    _Atomic uint64_t request_count;
    _Atomic uint32_t done;  // one bit for each fault of the plan that has occurred
};

void inject_begin(struct inject *inject, const struct inject_plan *plan);

// Opens a queue of the engine whose requests meet the faults.
int inject_queue_open(struct inject *inject, const struct io_engine *engine, int depth, struct io_queue **out);

// Returns true if the plan makes this allocation fail for lack of space.
bool inject_takes_space(struct inject *inject);
