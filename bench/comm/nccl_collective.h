// SPDX-License-Identifier: Apache-2.0
// NCCL's own collectives, on the buffers of comm.h's: the baseline of the canonical order on GPUs. NCCL chooses the
// order of additions by world, sizes and links.
#ifndef ZG_NCCL_COLLECTIVE_H
#define ZG_NCCL_COLLECTIVE_H

#include "ref/comm/comm_internal.h"

// Runs the call by NCCL on device memory; all ranks call it together, and it is complete on return. NCCL's collectives
// need equal shards: uneven ones run as a group of ncclReduce or ncclBroadcast, and an all-to-all as a group of
// ncclSend and ncclRecv, as in nccl-tests. Reductions are sums of fp32, out of place. The ledger does not count it, and
// ranks do not compare their calls. A failed rank is reported as in comm.h. ERR_USAGE: the comm is not over NCCL.
int nccl_collective_run(struct comm *comm, const struct comm_call *call);

// Returns the library's name and version, such as "NCCL 2.28.3", valid while the comm is open; null: not over NCCL.
const char *nccl_collective_library(const struct comm *comm);

#endif
