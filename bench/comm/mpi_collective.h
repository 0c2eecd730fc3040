// SPDX-License-Identifier: Apache-2.0
// MPI's own collectives, on the buffers of comm.h's: the baseline of the canonical order. MPI chooses the order of
// additions by world, sizes and network.
#ifndef ZG_MPI_COLLECTIVE_H
#define ZG_MPI_COLLECTIVE_H

#include "ref/comm/comm_internal.h"

// Runs the call by MPI; all ranks, which must be processes, call it together. Reductions are sums of fp32, out of
// place. The ledger does not count it, ranks do not compare their calls, and a failed rank is not detected. ERR_USAGE:
// more elements than an int can count, or ranks that are threads. ERR_IO: an error of MPI.
int mpi_collective_run(struct comm *comm, const struct comm_call *call);

// Returns the name and version of the MPI library, such as "Open MPI v4.1.4"; null: built without MPI.
const char *mpi_collective_library(void);

#endif
