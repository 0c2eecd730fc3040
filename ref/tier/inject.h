// SPDX-License-Identifier: Apache-2.0
// Faults on purpose (--inject), so that what a fault ends in can be seen and tested. Those of the storage are provoked
// between a transfer and the engine that carries its requests, and nowhere else:
//
//   nvme:eio@K     the K-th request fails: input/output error
//   nvme:short@K   the kernel moves half of what the K-th request asks for
//   nvme:torn@K    of the first write from the K-th request on only half reaches the medium, and all of it is reported
//   nvme:enospc@K  the first write or allocation from the K-th request on finds the file system full
//   nvme:delay@K   the K-th request is held back for a second
//   nvme:flip@K    a bit of the K-th request changes on the medium: before it is read, or after it was written
//   rank:R:die@S   rank R gives up in step S, and says so (the training loop's part)
//   rank:R:kill@S  its process gets SIGKILL there, and says nothing (the same)
//
// Requests are counted from 1, by each rank its own; the faults of nvme: hold for every rank.
#ifndef ZG_INJECT_H
#define ZG_INJECT_H

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
    INJECT_DIE,  // this and what follows is of one rank
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

// Adds one fault, or several with commas between them; ERR_USAGE says what is expected.
int inject_parse(const char *text, struct inject_plan *plan);

// The first step, from 1, in which the rank shall end, by INJECT_DIE or INJECT_KILL; 0: none.
uint64_t inject_death_step(const struct inject_plan *plan, int rank, enum inject_kind kind);

// One rank's faults, and how far it is. Threads of that rank share it.
struct inject {
    struct inject_plan plan;
    _Atomic uint64_t request_count;
    _Atomic uint32_t done;  // a bit for each fault of the plan that has been provoked
};

void inject_begin(struct inject *inject, const struct inject_plan *plan);

// A queue of the engine whose requests meet the faults.
int inject_queue_open(struct inject *inject, const struct io_engine *engine, int depth, struct io_queue **out);

// Whether an allocation finds the file system full.
bool inject_takes_space(struct inject *inject);

#endif
