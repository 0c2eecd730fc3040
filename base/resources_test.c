// SPDX-License-Identifier: Apache-2.0
// What a process may use: affinity, control groups of both versions, nested and in containers, and pretended machines.
#include "base/resources.h"

#include "base/machine.h"
#include "base/pretended_test.h"

#include <math.h>
#include <sched.h>

static char root[PATH_MAX];

static void setup(void)
{
    folder_make(root);
}

static void teardown(void)
{
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
}

TestSuite(resources, .init = setup, .fini = teardown);

Test(resources, the_machine_of_the_process_has_what_the_system_reports)
{
    cpu_set_t allowed;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    double quota = resources_processor_quota();
    int least = quota > 0 && quota < CPU_COUNT(&allowed) ? (int)ceil(quota) : CPU_COUNT(&allowed);
    cr_expect_eq(resources_processor_count(), least);
    cr_expect_gt(resources_memory_available(), 0);
    cr_expect_leq(resources_memory_available(), (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

Test(resources, the_affinity_limits_processors)
{
    cpu_set_t allowed, one;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_expect_eq(resources_processor_count(), 1);
}

Test(resources, a_pretended_machine_has_its_own_processors_caches_and_memory)
{
    pretended_machine(root, "pack:2 numa:2 l3:1(size=1152MiB) l2:32(size=1MiB) core:2 pu:1", 8 << 10);
    cr_expect_eq(resources_processor_count(), 256);
    cr_expect_eq(resources_cache_bytes(), (uint64_t)4 * 1152 << 20);
    cr_expect_eq(resources_memory_available(), (uint64_t)8 << 30);
    cr_expect_eq(resources_memory_limit(), 0);
    json_t *machine = machine_facts(NULL);
    cr_expect_eq(json_integer_value(json_object_get(machine, "threads")), 256);
    cr_expect_eq(json_integer_value(json_object_get(machine, "numa_nodes")), 4);
    cr_expect_eq(json_integer_value(json_object_get(machine, "memory_bytes")), (json_int_t)8 << 30);
    cr_expect_eq(json_integer_value(json_object_get(machine, "allowed_threads")), 256);
    cr_expect(json_is_null(json_object_get(machine, "memory_limit_bytes")));
    json_decref(machine);
}

Test(resources, a_missing_topology_is_named)
{
    hwloc_topology_t topology;
    setenv("ZG_MACHINE_ROOT", root, 1);
    cr_expect_neq(resources_topology(&topology), 0);
    cr_expect_null(topology);
    cr_expect_eq(resources_cache_bytes(), 0);
    cr_expect_eq(resources_processor_count(), 1);
}

Test(resources, cgroup_v2_limits_of_any_level_count)
{
    pretended_machine(root, "core:16 pu:1", 64 << 10);
    pretended_file(root, "proc/self/cgroup", "0::/slice/job\n");
    pretended_file(root, "sys/fs/cgroup/slice/memory.max", "8589934592\n");
    pretended_file(root, "sys/fs/cgroup/slice/memory.current", "3221225472\n");
    pretended_file(root, "sys/fs/cgroup/slice/memory.stat", "anon 1\nfile 9\ninactive_file 1073741824\n");
    pretended_file(root, "sys/fs/cgroup/slice/job/memory.max", "max\n");
    pretended_file(root, "sys/fs/cgroup/slice/job/memory.current", "3221225472\n");
    pretended_file(root, "sys/fs/cgroup/slice/job/cpu.max", "250000 100000\n");
    pretended_file(root, "sys/fs/cgroup/slice/cpu.max", "max 100000\n");
    cr_expect_eq(resources_memory_limit(), (uint64_t)8 << 30);
    cr_expect_eq(resources_memory_available(), (uint64_t)6 << 30);
    cr_expect_float_eq(resources_processor_quota(), 2.5, 1e-9);
    cr_expect_eq(resources_processor_count(), 3);
    pretended_file(root, "sys/fs/cgroup/slice/cpu.max", "50000 100000\n");
    cr_expect_eq(resources_processor_count(), 1);
}

Test(resources, in_a_container_the_mount_is_its_own_group)
{
    pretended_machine(root, "core:16 pu:1", 64 << 10);
    pretended_file(root, "proc/self/cgroup", "0::/../../unknown/here\n");
    pretended_file(root, "sys/fs/cgroup/memory.max", "4294967296\n");
    pretended_file(root, "sys/fs/cgroup/memory.current", "1073741824\n");
    pretended_file(root, "sys/fs/cgroup/cpu.max", "400000 100000\n");
    cr_expect_eq(resources_memory_limit(), (uint64_t)4 << 30);
    cr_expect_eq(resources_memory_available(), (uint64_t)3 << 30);
    cr_expect_eq(resources_processor_count(), 4);
}

Test(resources, cgroup_v1_limits_count_as_well)
{
    pretended_machine(root, "core:16 pu:1", 64 << 10);
    pretended_file(root, "proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n");
    pretended_file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    pretended_file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    cr_expect_eq(resources_memory_limit(), 0, "a limit beyond any memory is none");
    pretended_file(root, "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "2147483648\n");
    pretended_file(root, "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "1610612736\n");
    pretended_file(root, "sys/fs/cgroup/memory/docker/1/memory.stat", "cache 1\ntotal_inactive_file 536870912\n");
    pretended_file(root, "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    pretended_file(root, "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(resources_memory_limit(), (uint64_t)2 << 30);
    cr_expect_eq(resources_memory_available(), (uint64_t)1 << 30);
    cr_expect_eq(resources_processor_count(), 16);
    pretended_file(root, "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "150000\n");
    cr_expect_eq(resources_processor_count(), 2);
}
