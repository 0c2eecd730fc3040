// SPDX-License-Identifier: Apache-2.0
// NCCL's own collectives, on the buffers of comm.h's: what the canonical order is compared with, as mpi_collective.h is
// among processors. NCCL adds up in an order that it chooses itself, by world, sizes and links.
#ifndef ZG_NCCL_COLLECTIVE_H
#define ZG_NCCL_COLLECTIVE_H

#include "ref/comm/comm_internal.h"

// Of a comm over NCCL: the call by NCCL itself, on all ranks together, of memory of their accelerators, complete on
// return. Uneven shards are a group of ncclReduce or ncclBroadcast, for NCCL's own are equal; an all-to-all is the
// group of ncclSend and ncclRecv that nccl-tests has for it. Reductions are sums of fp32; nothing is in place. Neither
// compared among ranks nor counted. A rank that fails is noticed as in comm.h. ERR_USAGE: another comm.
int nccl_collective_run(struct comm *comm, const struct comm_call *call);

// The name and version of the library beneath it, such as "NCCL 2.28.3", as long as the comm is open; null: it is over
// another one.
const char *nccl_collective_library(const struct comm *comm);

#endif
