// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_cores.h"

#include "base/err.h"
#include "base/resources.h"

void comm_cores_open(int world, struct comm_cores *out)
{
    *out = (struct comm_cores){0};
    if (world > resources_processor_count() || resources_topology(&out->topology) != ERR_NONE)
        return;
    out->allowed = hwloc_bitmap_alloc();
    if (!out->allowed || hwloc_get_cpubind(out->topology, out->allowed, HWLOC_CPUBIND_THREAD) != 0 ||
        !resources_core(out->topology, out->allowed, world - 1))
        comm_cores_close(out);
}

void comm_cores_bind(const struct comm_cores *cores, int rank)
{
    hwloc_obj_t core = cores->topology ? resources_core(cores->topology, cores->allowed, rank) : NULL;
    hwloc_cpuset_t set = core ? hwloc_bitmap_dup(core->cpuset) : NULL;
    if (!set)
        return;
    hwloc_bitmap_and(set, set, cores->allowed);
    hwloc_set_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

void comm_cores_close(struct comm_cores *cores)
{
    if (!cores->topology)
        return;
    if (cores->allowed && !hwloc_bitmap_iszero(cores->allowed))
        hwloc_set_cpubind(cores->topology, cores->allowed, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(cores->allowed);
    hwloc_topology_destroy(cores->topology);
    *cores = (struct comm_cores){0};
}
