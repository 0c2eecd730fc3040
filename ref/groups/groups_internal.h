// SPDX-License-Identifier: Apache-2.0
// The kinds of groups. Each opens its communicators, if the configuration asks for it, and takes the verbs that it
// changes.
#pragma once

#include "ref/groups/groups.h"

int replicas_open(struct groups *groups);
int hpz_open(struct groups *groups);
int quantized_open(struct groups *groups);
int experts_open(struct groups *groups);

// Makes a communicator of `ranks` ranks of the shard group, from its rank `from` on, `step` apart.
int groups_split(struct groups *groups, enum ledger_group group, int ranks, int from, int step, struct comm **out);

// Cuts every bucket as the second copy of its parameters is cut.
int hpz_cut(struct groups *groups);

// Memory for the packed gradients of both hops of one bucket, and with overlap_comm of those of the next one; and the
// same for packed parameters.
int quantized_allocate_gradients(struct groups *groups);
int quantized_allocate_params(struct groups *groups);
