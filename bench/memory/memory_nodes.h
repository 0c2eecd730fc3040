// SPDX-License-Identifier: Apache-2.0
// The NUMA nodes whose processors this process may use, and threads that stay on a node or on a core.
#pragma once

#include <hwloc.h>

enum { MEMORY_NODES_MAX = 64 };

struct memory_nodes {
    hwloc_topology_t topology;
    hwloc_cpuset_t allowed;  // the processors that this process might use at the start
    int count;
    hwloc_obj_t nodes[MEMORY_NODES_MAX];
};

// Finds the nodes. ERR_MEMORY, ERR_IO. The caller closes *out, after an error too.
int memory_nodes_open(struct memory_nodes *out);
void memory_nodes_close(struct memory_nodes *nodes);

// Return node `index`'s number in the operating system, and how many of its processors this process may use.
int memory_nodes_number(const struct memory_nodes *nodes, int index);
int memory_nodes_threads(const struct memory_nodes *nodes, int index);

// Binds the threads of an OpenMP team of this size to a node; index -1: back to the allowed processors. ERR_IO.
int memory_nodes_bind(const struct memory_nodes *nodes, int index, int threads);

// How threads are bound: as the process was started; each to a core of its own; each to a node, so that all nodes have
// as many.
enum memory_placement { MEMORY_AS_GIVEN, MEMORY_ONE_PER_CORE, MEMORY_BY_NODE };

// Returns the number of cores with a processor that this process may use.
int memory_nodes_cores(const struct memory_nodes *nodes);

// Binds the threads of an OpenMP team of this size, at most memory_nodes_cores for MEMORY_ONE_PER_CORE. ERR_IO.
int memory_nodes_place(const struct memory_nodes *nodes, enum memory_placement placement, int threads);

// Verifies that the pages lie on a node, if the system reports it. ERR_CHECK: they do not.
int memory_nodes_check(const struct memory_nodes *nodes, int index, const void *memory, size_t bytes);
