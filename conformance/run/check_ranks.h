// SPDX-License-Identifier: Apache-2.0
// The suite under a launcher: rank 0 writes the cases of the launcher's world and judges; the reference answers them on
// all ranks together.
#pragma once

#include "conformance/run/check.h"
#include "ref/comm/comm.h"

struct check_ranks {
    struct comm *comm;
    const volatile sig_atomic_t *interrupted;
};

// On rank 0, as check_setting's answer: every rank answers the cases of a launch. ERR_PEER names the rank that failed.
int check_ranks_answer(void *ranks, const struct check_words *words);

// On rank 0, when there are no more.
int check_ranks_end(const struct check_ranks *ranks);

// On every other rank, until there are no more. ERR_USAGE: this host does not see the cases' folder.
int check_ranks_follow(const struct check_ranks *ranks);
