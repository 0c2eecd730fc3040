// SPDX-License-Identifier: Apache-2.0
#include "base/resources.h"

#include "base/err.h"
#include "base/file.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, TOPOLOGY_BYTES_MAX = 1 << 20, MOUNTS_MAX = 2 };

static const char *root(void)
{
    const char *folder = getenv("ZG_MACHINE_ROOT");
    return folder ? folder : "";
}

const char *resources_path(const char *path, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s%s", root(), path);
    return out;
}

static bool is_pretended(void)
{
    return *root() != '\0';
}

// --- the topology ---

static int choose_pretended(hwloc_topology_t topology)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    if (access(resources_path("/topology.xml", path), F_OK) == 0)
        return hwloc_topology_set_xml(topology, path) == 0 ? ERR_NONE : err_set(ERR_USAGE, "%s: not a topology", path);
    TRY(file_read_text(resources_path("/topology.txt", path), TOPOLOGY_BYTES_MAX, &text, &bytes));
    text[strcspn(text, "\n")] = '\0';
    int failed = hwloc_topology_set_synthetic(topology, text);
    free(text);
    return failed ? err_set(ERR_USAGE, "%s: not a synthetic topology", path) : ERR_NONE;
}

int resources_topology(hwloc_topology_t *out)
{
    *out = NULL;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return err_set(ERR_MEMORY, "no memory for the machine's topology");
    int code = is_pretended() ? choose_pretended(topology) : ERR_NONE;
    if (code == ERR_NONE && hwloc_topology_load(topology) != 0)
        code = err_set(ERR_IO, "hwloc cannot read this machine's topology");
    if (code == ERR_NONE)
        *out = topology;
    else
        hwloc_topology_destroy(topology);
    return code;
}

hwloc_obj_t resources_core(hwloc_topology_t topology, hwloc_const_bitmap_t allowed, int index)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)))
        if (hwloc_bitmap_intersects(core->cpuset, allowed) && index-- == 0)
            return core;
    return NULL;
}

// Returns the processors that this process may run on; all if the system does not tell. The caller frees it.
static hwloc_cpuset_t affinity(hwloc_topology_t topology)
{
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (set && hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_topology_cpuset(topology));
    if (set)
        hwloc_bitmap_and(set, set, hwloc_topology_get_topology_cpuset(topology));
    return set;
}

uint64_t resources_cache_bytes(void)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE};
    uint64_t bytes = 0;
    hwloc_topology_t topology;
    if (resources_topology(&topology) != ERR_NONE)
        return 0;
    hwloc_cpuset_t allowed = affinity(topology);
    for (size_t i = 0; allowed && i < sizeof levels / sizeof levels[0] && bytes == 0; i++) {
        hwloc_obj_t cache = NULL;
        while ((cache = hwloc_get_next_obj_by_type(topology, levels[i], cache)))
            if (hwloc_bitmap_intersects(cache->cpuset, allowed))
                bytes += cache->attr->cache.size;
    }
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return bytes;
}

// --- the control group ---

// Where a controller's files are, and how they are called.
struct controller {
    const char *mounts[MOUNTS_MAX];
    const char *name;  // in /proc/self/cgroup: "" for cgroup v2
};

static const struct controller UNIFIED = {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, ""},
                               MEMORY_V1 = {{"/sys/fs/cgroup/memory"}, "memory"},
                               CPU_V1 = {{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}, "cpu"};

// Finds the process's group in lines such as "0::/user.slice" or "4:cpu,cpuacct:/docker/1". False: it has none.
static bool find_group(const char *name, char out[LINE_BYTES])
{
    char line[LINE_BYTES], path[PATH_MAX];
    bool found = false;
    FILE *file = fopen(resources_path("/proc/self/cgroup", path), "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL, *rest, *one;
        if (!group)
            continue;
        *group++ = '\0';
        found = !*name && !names[1];
        for (rest = names + 1; *name && !found && (one = strsep(&rest, ","));)
            found = strcmp(one, name) == 0;
        group[strcspn(group, "\n")] = '\0';
        strcpy(out, group);
    }
    if (file)
        fclose(file);
    return found;
}

// Reads a number, or the second of two, of a file. False: there is no such number, as in "max".
static bool read_number(const char *folder, const char *name, int index, double *out)
{
    char path[PATH_MAX];
    double numbers[2];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    int count = file ? fscanf(file, "%lf %lf", &numbers[0], &numbers[1]) : 0;
    if (file)
        fclose(file);
    if (count > index)
        *out = numbers[index];
    return count > index;
}

bool resources_number(const char *path, const char *word, double *out)
{
    char line[LINE_BYTES];
    bool found = false;
    size_t length = strlen(word);
    *out = 0;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, word, length) == 0 && sscanf(line + length, "%*[: ]%lf", out) == 1;
    if (file)
        fclose(file);
    return found;
}

// Calls `of` with the folder of the process's group and of each group around it. Inside a container the outermost one
// that is visible is the container's own, whose name may be unknown there.
static void each_group(const struct controller *controller, void (*of)(const char *folder, void *context),
                       void *context)
{
    char group[LINE_BYTES], mount[PATH_MAX], folder[PATH_MAX + LINE_BYTES];
    if (!find_group(controller->name, group))
        return;
    for (int i = 0; i < MOUNTS_MAX && controller->mounts[i]; i++) {
        resources_path(controller->mounts[i], mount);
        for (size_t length = strlen(group) + 1; length-- > 0;) {
            if (group[length] != '\0' && group[length] != '/')
                continue;
            snprintf(folder, sizeof folder, "%s%.*s", mount, (int)length, group);
            of(folder, context);
        }
    }
}

static void take_less(double value, double *least)
{
    if (value < *least)
        *least = value;
}

static void quota_of(const char *folder, void *context)
{
    double quota, period;
    if (read_number(folder, "cpu.max", 0, &quota) && read_number(folder, "cpu.max", 1, &period) && period > 0)
        take_less(quota / period, context);
    if (read_number(folder, "cpu.cfs_quota_us", 0, &quota) && quota > 0 &&
        read_number(folder, "cpu.cfs_period_us", 0, &period) && period > 0)
        take_less(quota / period, context);
}

double resources_processor_quota(void)
{
    double least = INFINITY;
    each_group(&UNIFIED, quota_of, &least);
    each_group(&CPU_V1, quota_of, &least);
    return isfinite(least) ? least : 0;
}

// Returns the processors of the affinity; 0: unknown.
static int affinity_count(void)
{
    const size_t most = 1 << 16;
    for (size_t room = CPU_SETSIZE; room <= most; room *= 2) {
        cpu_set_t *set = CPU_ALLOC(room);
        size_t bytes = CPU_ALLOC_SIZE(room);
        int count = set && sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 0;
}

static int pretended_count(void)
{
    hwloc_topology_t topology;
    if (resources_topology(&topology) != ERR_NONE)
        return 0;
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    hwloc_topology_destroy(topology);
    return count;
}

int resources_processor_count(void)
{
    // The process's own, for its whole life: reading it takes a tenth of a millisecond, and ranks ask for each world.
    static _Atomic double own_quota = -1;
    const bool pretended = is_pretended();
    const double quota = pretended || own_quota < 0 ? resources_processor_quota() : own_quota;
    if (!pretended)
        own_quota = quota;
    int count = pretended ? pretended_count() : affinity_count();
    if (quota > 0 && ceil(quota) < count)
        count = (int)ceil(quota);
    return count > 0 ? count : 1;
}

// Without a limit, v1 shows a number that is larger than any memory.
static const double NO_LIMIT = 0x1p60;

static void limit_of(const char *folder, void *context)
{
    double limit;
    if (read_number(folder, "memory.max", 0, &limit))
        take_less(limit, context);
    if (read_number(folder, "memory.limit_in_bytes", 0, &limit) && limit < NO_LIMIT)
        take_less(limit, context);
}

uint64_t resources_memory_limit(void)
{
    double least = INFINITY;
    each_group(&UNIFIED, limit_of, &least);
    each_group(&MEMORY_V1, limit_of, &least);
    return isfinite(least) ? (uint64_t)least : 0;
}

static void room_of(const char *folder, void *context)
{
    static const struct {
        const char *limit, *used, *cached;
    } names[] = {{"memory.max", "memory.current", "inactive_file"},
                 {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char stat[PATH_MAX];
        double limit, used, cached;
        if (!read_number(folder, names[i].limit, 0, &limit) || !read_number(folder, names[i].used, 0, &used))
            continue;
        snprintf(stat, sizeof stat, "%s/memory.stat", folder);
        resources_number(stat, names[i].cached, &cached);
        take_less(fmax(limit - used + cached, 1), context);
    }
}

uint64_t resources_memory_available(void)
{
    char path[PATH_MAX];
    double available;
    resources_number(resources_path("/proc/meminfo", path), "MemAvailable", &available);
    double least = available > 0 ? available * 1024 : INFINITY;
    each_group(&UNIFIED, room_of, &least);
    each_group(&MEMORY_V1, room_of, &least);
    return least < NO_LIMIT ? (uint64_t)least : 0;
}
