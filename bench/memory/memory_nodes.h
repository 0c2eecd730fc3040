// SPDX-License-Identifier: Apache-2.0
// The NUMA nodes whose processors this process may use, and threads that stay on one of them.
#ifndef ZG_MEMORY_NODES_H
#define ZG_MEMORY_NODES_H

#include <hwloc.h>

#include <stdbool.h>

enum { MEMORY_NODES_MAX = 64 };

struct memory_nodes {
    hwloc_topology_t topology;
    hwloc_cpuset_t allowed;  // where this process might run before
    int count;
    hwloc_obj_t nodes[MEMORY_NODES_MAX];
};

int memory_nodes_open(struct memory_nodes *out);  // ERR_IO
void memory_nodes_close(struct memory_nodes *nodes);

int memory_nodes_number(const struct memory_nodes *nodes, int index);   // as the system counts them
int memory_nodes_threads(const struct memory_nodes *nodes, int index);  // processors there

// From now on the OpenMP threads of a team of this size stay on that node; -1: wherever the process might run before.
int memory_nodes_bind(const struct memory_nodes *nodes, int index, int threads);  // ERR_IO

// ERR_CHECK unless the pages lie on that node, as far as the system tells.
int memory_nodes_check(const struct memory_nodes *nodes, int index, const void *memory, size_t bytes);

#endif
