// SPDX-License-Identifier: Apache-2.0
// The facts come from hwloc and from files of the kernel.
#include "base/machine.h"

#include "base/err.h"
#include "base/gpu.h"
#include "base/processor.h"
#include "base/resources.h"
#include "base/safe_text.h"

#include <hwloc.h>

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

static json_t *caches_json(hwloc_topology_t topology)
{
    static const struct {
        hwloc_obj_type_t type;
        const char *name;
    } levels[] = {{HWLOC_OBJ_L1CACHE, "L1d"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}};
    json_t *caches = json_array();
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        int count = hwloc_get_nbobjs_by_type(topology, levels[i].type);
        if (count <= 0)
            continue;
        hwloc_obj_t first = hwloc_get_obj_by_type(topology, levels[i].type, 0);
        json_array_append_new(caches, json_pack("{s:s, s:I, s:i}", "name", levels[i].name, "bytes",
                                                (json_int_t)first->attr->cache.size, "count", count));
    }
    return caches;
}

static json_t *node_bytes_json(hwloc_topology_t topology)
{
    json_t *list = json_array();
    for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE); i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        json_array_append_new(list, json_integer((json_int_t)node->attr->numanode.local_memory));
    }
    return list;
}

// The word in brackets of a file such as "always [madvise] never".
static void transparent_huge_pages(char out[32])
{
    char path[PATH_MAX];
    strcpy(out, "unknown");
    FILE *file = fopen(resources_path("/sys/kernel/mm/transparent_hugepage/enabled", path), "r");
    if (!file)
        return;
    if (fscanf(file, "%*[^[][%31[^]]", out) != 1)
        strcpy(out, "unknown");
    fclose(file);
}

// A number of /proc/meminfo, times `unit`.
static json_t *number_of_meminfo(const char *name, json_int_t unit)
{
    char path[PATH_MAX];
    double number;
    return resources_number(resources_path("/proc/meminfo", path), name, &number)
               ? json_integer((json_int_t)number * unit)
               : json_null();
}

static bool file_has(const char *path, const char *word)
{
    char line[8192];
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, word) != NULL;
    if (file)
        fclose(file);
    return found;
}

// x86-64's processors report a hypervisor. aarch64's do not: there the firmware's names show it, which Amazon gives its
// bare metal, too.
static bool is_virtual(void)
{
#if defined(__aarch64__)
    static const char *const makers[] = {"QEMU", "Amazon EC2", "Google", "Microsoft Corporation", "VMware", "Xen"};
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (file_has("/sys/class/dmi/id/sys_vendor", makers[i]))
            return !file_has("/sys/class/dmi/id/product_name", "metal");
    return file_has("/proc/device-tree/compatible", "linux,dummy-virt");
#else
    return file_has("/proc/cpuinfo", " hypervisor");
#endif
}

// The product name on a virtual machine; null on hardware.
static json_t *hypervisor_json(void)
{
    if (!is_virtual())
        return json_null();
    json_t *product = machine_line("/sys/class/dmi/id/product_name");
    if (json_string_length(product) > 0)
        return product;
    json_decref(product);
    return json_string("yes");
}

// True if a virtual machine's host takes free pages back, so that memory is slow when it is first touched: its balloon
// (virtio device 5) reports free pages (bit 5 of the features, which are written from bit 0 on).
static bool gives_free_memory_back(void)
{
    char name[64], path[PATH_MAX];
    bool found = false;
    for (int i = 0; i < 16 && !found; i++) {
        snprintf(name, sizeof name, "/sys/bus/virtio/devices/virtio%d/device", i);
        if (!file_has(resources_path(name, path), "0x0005"))
            continue;
        snprintf(name, sizeof name, "/sys/bus/virtio/devices/virtio%d/features", i);
        json_t *features = machine_line(resources_path(name, path));
        found = json_string_length(features) > 5 && json_string_value(features)[5] == '1';
        json_decref(features);
    }
    return found;
}

// Detects containers by the marks that their engines leave; null outside of containers.
static json_t *container_json(void)
{
    static const struct {
        const char *path, *word, *name;  // word: null if the file's existence is the mark
    } marks[] = {{"/.dockerenv", NULL, "docker"},        {"/run/.containerenv", NULL, "podman"},
                 {"/.singularity.d", NULL, "apptainer"}, {"/proc/1/cgroup", "kubepods", "kubernetes"},
                 {"/proc/1/cgroup", "docker", "docker"}, {"/proc/1/cgroup", "lxc", "lxc"}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (marks[i].word ? file_has(marks[i].path, marks[i].word) : access(marks[i].path, F_OK) == 0)
            return json_string(marks[i].name);
    return json_null();
}

// The GPUs that NVIDIA's driver lists, also in a build that cannot use them, with what its management library says.
static json_t *gpus_json(void)
{
    json_t *list = json_array();
    struct gpu gpus[GPU_MAX];
    size_t count = gpus_read(gpus);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, gpu_json(&gpus[i]));
    if (count > 0)
        return list;
    glob_t found = {0};
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) != 0)
        found.gl_pathc = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char model[256] = "unknown";
        FILE *file = fopen(found.gl_pathv[i], "r");
        if (file && fscanf(file, "Model: %255[^\n]", model) != 1)
            strcpy(model, "unknown");
        if (file)
            fclose(file);
        json_array_append_new(list, json_pack("{s:o}", "model", text_json(model)));
    }
    globfree(&found);
    return list;
}

static json_t *disks_json(const char *const *folders)
{
    json_t *list = json_array();
    for (size_t i = 0; folders && folders[i]; i++) {
        json_t *disk = machine_disk(folders[i]);
        if (disk)
            json_array_append_new(list, disk);
    }
    return list;
}

static json_t *topology_json(hwloc_topology_t topology)
{
    char processor[PROCESSOR_NAME_BYTES];
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:o, s:o}", "processor", text_json(processor_name(topology, processor)),
                     "sockets", hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), "cores",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), "threads",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), "numa_nodes",
                     hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), "numa_node_bytes",
                     node_bytes_json(topology), "caches", caches_json(topology));
}

// Of a pretended machine, what its own files say.
static json_t *memory_json(void)
{
    return getenv("ZG_MACHINE_ROOT") ? number_of_meminfo("MemTotal", 1024)
                                     : json_integer((json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

// The limits of this process; null: no limit.
static json_t *limits_json(void)
{
    struct rlimit locked;
    double quota = resources_processor_quota();
    uint64_t memory = resources_memory_limit();
    bool is_locked = getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY;
    return json_pack("{s:i, s:o, s:o, s:o}", "allowed_threads", resources_processor_count(), "processor_quota",
                     quota > 0 ? json_real(quota) : json_null(), "memory_limit_bytes",
                     memory > 0 ? json_integer((json_int_t)memory) : json_null(), "locked_memory_limit_bytes",
                     is_locked ? json_integer((json_int_t)locked.rlim_cur) : json_null());
}

json_t *machine_facts(const char *const *folders)
{
    hwloc_topology_t topology;
    if (resources_topology(&topology) != ERR_NONE)
        return NULL;
    json_t *machine = topology_json(topology), *limits = limits_json();
    hwloc_topology_destroy(topology);
    int failed = json_object_update(machine, limits);
    json_decref(limits);
    if (failed) {
        json_decref(machine);
        return NULL;
    }
    struct utsname system;
    uname(&system);
    char huge_pages[32];
    transparent_huge_pages(huge_pages);
    json_t *others =
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:b}", "memory_bytes", memory_json(),
                  "transparent_huge_pages", huge_pages, "huge_pages", number_of_meminfo("HugePages_Total", 1),
                  "huge_page_bytes", number_of_meminfo("Hugepagesize", 1024), "gpus", gpus_json(), "disks",
                  disks_json(folders), "kernel", system.release, "architecture", system.machine, "clock_source",
                  machine_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"), "governor",
                  machine_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "hypervisor",
                  hypervisor_json(), "container", container_json(), "gives_free_memory_back", gives_free_memory_back());
    if (!others || json_object_update(machine, others) != 0) {
        json_decref(machine);
        machine = NULL;
    }
    json_decref(others);
    return machine;
}
