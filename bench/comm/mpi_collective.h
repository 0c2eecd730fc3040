// SPDX-License-Identifier: Apache-2.0
// MPI's own collectives, on the buffers of comm.h's: what the canonical order is compared with. MPI adds up in an order
// that it chooses itself, by world, sizes and network.
#ifndef ZG_MPI_COLLECTIVE_H
#define ZG_MPI_COLLECTIVE_H

#include "ref/comm/comm_internal.h"

// Of a comm whose ranks are processes: the call by MPI itself, on all ranks together. Reductions are sums of fp32;
// nothing is in place. Neither compared among ranks nor counted; a rank that fails is not noticed. ERR_USAGE: more
// elements than MPI's int counts, or ranks that are threads. ERR_IO: MPI's own error.
int mpi_collective_run(struct comm *comm, const struct comm_call *call);

// The name and version of the MPI library, such as "Open MPI v4.1.4"; null where the binary was built without one.
const char *mpi_collective_library(void);

#endif
