// SPDX-License-Identifier: Apache-2.0
// The facts about the machine against those of the C library.
#include "base/build.h"
#include "base/folder_test.h"
#include "base/machine.h"
#include "base/pretended_test.h"
#include "base/processor.h"
#include "base/resources.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

Test(machine, memory_processors_and_kernel_match_the_system)
{
    struct utsname system;
    json_t *machine = machine_facts(NULL);
    cr_assert_not_null(machine);
    cr_assert_eq(uname(&system), 0);
    cr_expect_eq(json_integer_value(json_object_get(machine, "memory_bytes")),
                 (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    cr_expect_geq(json_integer_value(json_object_get(machine, "threads")), sysconf(_SC_NPROCESSORS_ONLN));
    cr_expect_str_eq(json_string_value(json_object_get(machine, "kernel")), system.release);
    cr_expect_eq(json_array_size(json_object_get(machine, "numa_node_bytes")),
                 (size_t)json_integer_value(json_object_get(machine, "numa_nodes")));
    cr_expect_eq(json_array_size(json_object_get(machine, "disks")), 0);
    json_decref(machine);
}

Test(machine, a_folder_has_its_file_system_and_size)
{
    struct statvfs room;
    const char *const folders[] = {"/proc", "/dev/shm", "/not/there", NULL};
    json_t *machine = machine_facts(folders), *disks = json_object_get(machine, "disks");
    cr_assert_eq(statvfs("/dev/shm", &room), 0);
    cr_assert_eq(json_array_size(disks), 2);
    const json_t *proc = json_array_get(disks, 0), *shm = json_array_get(disks, 1);
    cr_expect_str_eq(json_string_value(json_object_get(proc, "folder")), "/proc");
    cr_expect_str_eq(json_string_value(json_object_get(proc, "file_system")), "proc");
    cr_expect(json_is_null(json_object_get(proc, "device")));
    cr_expect_str_eq(json_string_value(json_object_get(shm, "file_system")), "tmpfs");
    cr_expect_eq(json_integer_value(json_object_get(shm, "bytes")), (json_int_t)(room.f_blocks * room.f_frsize));
    json_decref(machine);
}

// The kernel lists the device of a file system on a disk.
Test(machine, the_kernel_lists_the_disk)
{
    const char *const folders[] = {"/", NULL};
    char path[512];
    json_t *machine = machine_facts(folders);
    const json_t *disk = json_array_get(json_object_get(machine, "disks"), 0);
    const char *device = json_string_value(json_object_get(disk, "device"));
    if (!device) {
        fprintf(stderr, "TEST SKIPPED: / is on no disk here\n");
    } else {
        snprintf(path, sizeof path, "/sys/block/%s", device);
        cr_expect_eq(access(path, F_OK), 0, "%s", path);
        cr_expect(json_is_boolean(json_object_get(disk, "rotational")));
    }
    json_decref(machine);
}

Test(machine, the_build_has_compiler_flags_and_commit)
{
    json_t *build = build_facts();
    cr_assert_not_null(build);
    const json_t *commit = json_object_get(build, "commit");
    cr_expect(strstr(json_string_value(json_object_get(build, "flags")), "-ffp-contract=off"));
    cr_expect_str_eq(json_string_value(json_object_get(build, "compiler")), build_compiler);
    cr_expect_str_not_empty(json_string_value(json_object_get(json_object_get(build, "libraries"), "popt")));
    FILE *git = popen("git -C " ZG_SOURCE_DIR " rev-parse HEAD 2>/dev/null", "r");
    char head[64] = "";
    bool repository = git && fgets(head, sizeof head, git);
    if (git)
        pclose(git);
    // A commit may have been made after the build; a build from a repository has a commit.
    cr_expect_eq(json_is_string(commit), repository);
    cr_expect_eq(json_is_boolean(json_object_get(build, "dirty")), repository);
    cr_expect(!repository || json_string_length(commit) == 40);
    json_decref(build);
}

// Returns what processor_name says of a topology with these facts; null: without.
static const char *name_of(const char *model, const char *implementer, const char *part)
{
    static char name[PROCESSOR_NAME_BYTES];
    hwloc_topology_t topology;
    cr_assert_eq(hwloc_topology_init(&topology), 0);
    cr_assert_eq(hwloc_topology_set_synthetic(topology, "pack:1 core:2 pu:1"), 0);
    cr_assert_eq(hwloc_topology_load(topology), 0);
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    if (model)
        hwloc_obj_add_info(package, "CPUModel", model);
    if (implementer)
        hwloc_obj_add_info(package, "CPUImplementer", implementer);
    if (part)
        hwloc_obj_add_info(hwloc_get_root_obj(topology), "CPUPart", part);
    processor_name(topology, name);
    hwloc_topology_destroy(topology);
    return name;
}

Test(processor, its_name_is_the_model_or_the_design_of_its_codes)
{
    cr_expect_str_eq(name_of("AMD EPYC", NULL, NULL), "AMD EPYC");
    cr_expect_str_eq(name_of("Kunpeng", "0x48", "0xd01"), "Kunpeng");
    cr_expect_str_eq(name_of(NULL, "0x41", "0xd4f"), "Arm Neoverse V2");
    cr_expect_str_eq(name_of(NULL, "0x41", "0xd40"), "Arm Neoverse V1");
    cr_expect_str_eq(name_of(NULL, "0xc0", "0xac3"), "Ampere-1");
    cr_expect_str_eq(name_of(NULL, "0x46", "0x001"), "Fujitsu A64FX");
    cr_expect_str_eq(name_of(NULL, "0x41", "0xfff"), "implementer 0x41, part 0xfff");
    cr_expect_str_eq(name_of(NULL, "0x41", NULL), "unknown");
    cr_expect_str_eq(name_of(NULL, NULL, NULL), "unknown");
}

// Returns whether a program with this machine in its ELF header, named `name`, emulates this one.
static bool emulates(unsigned char machine, const char *magic, const char *name, char out[PROCESSOR_NAME_BYTES])
{
    char folder[PATH_MAX], path[PATH_MAX + 64], link[PATH_MAX + 64];
    char header[sizeof(Elf64_Ehdr)] = {0};
    folder_make(folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(link, sizeof link, "%s/exe", folder);
    memcpy(header, magic, SELFMAG);
    header[offsetof(Elf64_Ehdr, e_machine)] = (char)machine;
    folder_write(path, header, sizeof header);
    cr_assert_eq(symlink(path, link), 0);
    bool result = processor_is_emulated_by(link, out);
    folder_remove(folder);
    return result;
}

Test(processor, another_architectures_program_that_runs_for_this_one_is_an_emulator)
{
    char name[PROCESSOR_NAME_BYTES] = "";
    cr_expect(emulates(EM_PPC64, ELFMAG, "qemu-x", name));
    cr_expect_str_eq(name, "qemu-x");
#if defined(__aarch64__)
    cr_expect_not(emulates(EM_AARCH64, ELFMAG, "zerogauge", name));
#else
    cr_expect_not(emulates(EM_X86_64, ELFMAG, "zerogauge", name));
#endif
    cr_expect_not(emulates(EM_PPC64, "#!/b", "script", name));
    cr_expect_not(processor_is_emulated_by("/nowhere", name));
}

// The resources that a process may use: affinity, control groups of both versions, nested and in containers, and
// pretended machines.

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

static void grouped_machine(const char *groups)
{
    pretended_machine(root, "core:16 pu:1", 64 << 10);
    pretended_file(root, "proc/self/cgroup", groups);
}

static void expect_own_count(void)
{
    cpu_set_t allowed;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    double quota = resources_processor_quota();
    int least = quota > 0 && quota < CPU_COUNT(&allowed) ? (int)ceil(quota) : CPU_COUNT(&allowed);
    cr_expect_eq(resources_processor_count(), least);
}

Test(resources, the_machine_of_the_process_has_what_the_system_reports)
{
    expect_own_count();
    cr_expect_gt(resources_memory_available(), 0);
    cr_expect_leq(resources_memory_available(), (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

// Only the process's own group is remembered.
Test(resources, a_pretended_machine_leaves_the_own_one_as_it_is)
{
    for (int i = 0; i < 2; i++) {
        grouped_machine("0::/\n");
        pretended_file(root, "sys/fs/cgroup/cpu.max", i == 0 ? "50000 100000\n" : "300000 100000\n");
        cr_expect_eq(resources_processor_count(), i == 0 ? 1 : 3);
        unsetenv("ZG_MACHINE_ROOT");
        expect_own_count();
    }
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
    grouped_machine("0::/slice/job\n");
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
    grouped_machine("0::/../../unknown/here\n");
    pretended_file(root, "sys/fs/cgroup/memory.max", "4294967296\n");
    pretended_file(root, "sys/fs/cgroup/memory.current", "1073741824\n");
    pretended_file(root, "sys/fs/cgroup/cpu.max", "400000 100000\n");
    cr_expect_eq(resources_memory_limit(), (uint64_t)4 << 30);
    cr_expect_eq(resources_memory_available(), (uint64_t)3 << 30);
    cr_expect_eq(resources_processor_count(), 4);
}

Test(resources, cgroup_v1_limits_count_as_well)
{
    grouped_machine("9:name=systemd:/\n4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n");
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

// virtio1 is no balloon, and virtio2's first features are without free page reporting.
Test(resources, a_balloon_that_reports_free_pages_is_found)
{
    static const struct {
        const char *device, *features;
        bool gives;
    } rows[] = {{"0x0005", "0110010100", true},
                {"0x0005", "1111101111", false},
                {"0x0005", "11111", false},
                {"0x0002", "0110010100", false}};
    pretended_machine(root, "pack:1 core:2 pu:1", 1000);
    pretended_file(root, "sys/bus/virtio/devices/virtio1/device", "0x0001\n");
    pretended_file(root, "sys/bus/virtio/devices/virtio1/features", "1111111111\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pretended_file(root, "sys/bus/virtio/devices/virtio2/device", rows[i].device);
        pretended_file(root, "sys/bus/virtio/devices/virtio2/features", rows[i].features);
        json_t *machine = machine_facts(NULL);
        cr_assert_not_null(machine);
        cr_expect_eq(json_is_true(json_object_get(machine, "gives_free_memory_back")), rows[i].gives, "row %zu", i);
        json_decref(machine);
    }
}
