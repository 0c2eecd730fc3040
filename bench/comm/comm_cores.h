// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, each on a core of its own, as mpirun places processes. Where they are more than the cores,
// the system places them.
#ifndef ZG_COMM_CORES_H
#define ZG_COMM_CORES_H

#include <hwloc.h>

struct comm_cores {
    hwloc_topology_t topology;  // null: the system places the threads
    hwloc_cpuset_t allowed;     // to the thread that opened it
};

// Finds the cores of a world; where they cannot be found, the system places the threads. The caller closes *out.
void comm_cores_open(int world, struct comm_cores *out);

// Binds the calling thread to the rank's core. If the system refuses, the thread stays where it may be.
void comm_cores_bind(const struct comm_cores *cores, int rank);

// Returns the calling thread to all allowed processors. Closing a zeroed struct is safe.
void comm_cores_close(struct comm_cores *cores);

#endif
