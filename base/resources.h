// SPDX-License-Identifier: Apache-2.0
// What this process may use of the machine: the processors of its affinity, and the processor time and the memory of
// its control group (cgroup v2, or v1), which are often less than what the machine has.
//
// For tests the environment variable ZG_MACHINE_ROOT names a folder that replaces the machine: proc/... and sys/... in
// it replace the files of the kernel that describe the machine, and its topology.txt, a synthetic description as
// lstopo --input takes it ("pack:2 l3:1(size=1152MiB) core:64 pu:2"), or its topology.xml replaces what hwloc finds.
// The process may then use every processor of that topology.
#pragma once

#include <hwloc.h>

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

// Returns the path of a file of the kernel that describes the machine, below ZG_MACHINE_ROOT if it is set.
const char *resources_path(const char *path, char out[PATH_MAX]);

// Reads the number after a word at the start of a line, as in "MemFree: 1 kB". False, and 0: there is none.
bool resources_number(const char *path, const char *word, double *out);

// Opens the machine's topology. ERR_MEMORY, ERR_IO. The caller destroys it; *out is null after an error.
int resources_topology(hwloc_topology_t *out);

// Returns the core at `index`, from 0, among those that have an allowed processor; null: there are fewer.
hwloc_obj_t resources_core(hwloc_topology_t topology, hwloc_const_bitmap_t allowed, int index);

// Returns the number of processors that this process can keep busy: those of its affinity, but no more than its control
// group has processor time for, rounded up. At least 1. The group's limit is what it was at the process's first call.
int resources_processor_count(void);

// Returns the processor time that the control group permits, in processors; 0: no limit.
double resources_processor_quota(void);

// Returns the memory limit of the control group; 0: none.
uint64_t resources_memory_limit(void);

// Returns the memory that this process can still allocate: what the system has available, but no more than the control
// group has left, where file caches count as left. 0: unknown.
uint64_t resources_memory_available(void);

// Returns the bytes of all last-level caches that share a processor with this process's affinity. 0: unknown.
uint64_t resources_cache_bytes(void);
