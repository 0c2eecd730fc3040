// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_nodes.h"

#include "base/err.h"
#include "base/resources.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int memory_nodes_open(struct memory_nodes *out)
{
    *out = (struct memory_nodes){.allowed = hwloc_bitmap_alloc()};
    if (!out->allowed)
        return err_set(ERR_MEMORY, "no memory for the machine's topology");
    TRY(resources_topology(&out->topology));
    if (hwloc_get_cpubind(out->topology, out->allowed, HWLOC_CPUBIND_THREAD) != 0)
        return err_set(ERR_IO, "hwloc cannot read this process's processors: %s", strerror(errno));
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(out->topology, HWLOC_OBJ_NUMANODE, node)) &&
           out->count < MEMORY_NODES_MAX)
        if (hwloc_bitmap_intersects(node->cpuset, out->allowed))
            out->nodes[out->count++] = node;
    return ERR_NONE;
}

void memory_nodes_close(struct memory_nodes *nodes)
{
    hwloc_bitmap_free(nodes->allowed);
    if (nodes->topology)
        hwloc_topology_destroy(nodes->topology);
    *nodes = (struct memory_nodes){0};
}

int memory_nodes_number(const struct memory_nodes *nodes, int index)
{
    assert(index >= 0 && index < nodes->count);
    return (int)nodes->nodes[index]->os_index;
}

int memory_nodes_threads(const struct memory_nodes *nodes, int index)
{
    hwloc_cpuset_t common = hwloc_bitmap_alloc();
    if (!common)
        return 1;
    hwloc_bitmap_and(common, nodes->nodes[index]->cpuset, nodes->allowed);
    int count = hwloc_bitmap_weight(common);
    hwloc_bitmap_free(common);
    return count;
}

int memory_nodes_bind(const struct memory_nodes *nodes, int index, int threads)
{
    assert(index >= -1 && index < nodes->count && threads > 0);
    hwloc_cpuset_t set = hwloc_bitmap_dup(nodes->allowed);
    if (!set)
        return err_set(ERR_MEMORY, "no memory for a set of processors");
    if (index >= 0)
        hwloc_bitmap_and(set, set, nodes->nodes[index]->cpuset);
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : failed)
    for (int thread = 0; thread < threads; thread++)
        failed += hwloc_set_cpubind(nodes->topology, set, HWLOC_CPUBIND_THREAD) != 0;
    hwloc_bitmap_free(set);
    return failed == 0 ? ERR_NONE : err_set(ERR_IO, "cannot bind %d of %d threads to a node", failed, threads);
}

int memory_nodes_cores(const struct memory_nodes *nodes)
{
    int count = 0;
    while (resources_core(nodes->topology, nodes->allowed, count))
        count++;
    return count;
}

static bool place(const struct memory_nodes *nodes, enum memory_placement placement, int thread, int threads)
{
    hwloc_cpuset_t set = hwloc_bitmap_dup(nodes->allowed);
    if (set && placement == MEMORY_ONE_PER_CORE) {
        hwloc_bitmap_and(set, set, resources_core(nodes->topology, nodes->allowed, thread)->cpuset);
        hwloc_bitmap_singlify(set);
    } else if (set && placement == MEMORY_BY_NODE) {
        hwloc_bitmap_and(set, set, nodes->nodes[thread * nodes->count / threads]->cpuset);
    }
    bool placed = set && hwloc_set_cpubind(nodes->topology, set, HWLOC_CPUBIND_THREAD) == 0;
    hwloc_bitmap_free(set);
    return placed;
}

int memory_nodes_place(const struct memory_nodes *nodes, enum memory_placement placement, int threads)
{
    int failed = 0;
    assert(threads > 0 && (placement != MEMORY_ONE_PER_CORE || threads <= memory_nodes_cores(nodes)));
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : failed)
    for (int thread = 0; thread < threads; thread++)
        failed += !place(nodes, placement, thread, threads);
    return failed == 0 ? ERR_NONE : err_set(ERR_IO, "cannot bind %d of %d threads", failed, threads);
}

int memory_nodes_check(const struct memory_nodes *nodes, int index, const void *memory, size_t bytes)
{
    hwloc_nodeset_t where = hwloc_bitmap_alloc();
    if (!where)
        return err_set(ERR_MEMORY, "no memory for a set of nodes");
    // Nothing can be on a node of a pretended machine.
    int answer = hwloc_get_area_memlocation(nodes->topology, memory, bytes, where, HWLOC_MEMBIND_BYNODESET);
    bool right = answer != 0 || !hwloc_topology_is_thissystem(nodes->topology) ||
                 hwloc_bitmap_isincluded(where, nodes->nodes[index]->nodeset);
    hwloc_bitmap_free(where);
    return right ? ERR_NONE
                 : err_set(ERR_CHECK, "memory is not on node %d, whose threads touched it first",
                           memory_nodes_number(nodes, index));
}
