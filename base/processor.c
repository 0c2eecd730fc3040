// SPDX-License-Identifier: Apache-2.0
// Codes from the manuals of the designs' main identification register (MIDR_EL1), as lscpu of util-linux has them.
#include "base/processor.h"

#include <elf.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    unsigned long implementer, part;
    const char *name;
} designs[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd08, "Arm Cortex-A72"},         {0x41, 0xd0b, "Arm Cortex-A76"},
    {0x41, 0xd0c, "Arm Neoverse N1"}, {0x41, 0xd40, "Arm Neoverse V1"},        {0x41, 0xd49, "Arm Neoverse N2"},
    {0x41, 0xd4f, "Arm Neoverse V2"}, {0x41, 0xd83, "Arm Neoverse V3AE"},      {0x41, 0xd84, "Arm Neoverse V3"},
    {0x41, 0xd8e, "Arm Neoverse N3"}, {0x43, 0x0a1, "Cavium ThunderX"},        {0x43, 0x0af, "Marvell ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"},   {0x48, 0xd01, "HiSilicon TaiShan v110"}, {0x4e, 0x004, "NVIDIA Carmel"},
    {0x4e, 0x010, "NVIDIA Olympus"},  {0x6d, 0xd49, "Microsoft Azure Cobalt"}, {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1a"},
};

static const char *info_of(hwloc_topology_t topology, const char *key)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *value = package ? hwloc_obj_get_info_by_name(package, key) : NULL;
    return value ? value : hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), key);
}

const char *processor_name(hwloc_topology_t topology, char out[PROCESSOR_NAME_BYTES])
{
    const char *model = info_of(topology, "CPUModel");
    const char *implementer = info_of(topology, "CPUImplementer"), *part = info_of(topology, "CPUPart");
    snprintf(out, PROCESSOR_NAME_BYTES, "%s", model ? model : "unknown");
    if (model || !implementer || !part)
        return out;
    snprintf(out, PROCESSOR_NAME_BYTES, "implementer %s, part %s", implementer, part);
    for (size_t i = 0; i < sizeof designs / sizeof designs[0]; i++)
        if (strtoul(implementer, NULL, 16) == designs[i].implementer && strtoul(part, NULL, 16) == designs[i].part)
            snprintf(out, PROCESSOR_NAME_BYTES, "%s", designs[i].name);
    return out;
}

bool processor_is_emulated_by(const char *running, char out[PROCESSOR_NAME_BYTES])
{
#if defined(__aarch64__)
    const unsigned own = EM_AARCH64;
#else
    const unsigned own = EM_X86_64;
#endif
    Elf64_Ehdr header;
    char path[PATH_MAX];
    FILE *file = fopen(running, "r");
    bool whole = file && fread(&header, sizeof header, 1, file) == 1;
    if (file)
        fclose(file);
    if (!whole || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine == own)
        return false;
    ssize_t length = readlink(running, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    const char *name = strrchr(path, '/');
    snprintf(out, PROCESSOR_NAME_BYTES, "%.*s", PROCESSOR_NAME_BYTES - 1, name ? name + 1 : path);
    return true;
}

bool processor_is_emulated(char out[PROCESSOR_NAME_BYTES])
{
    return processor_is_emulated_by("/proc/thread-self/exe", out);
}

// Of Linux's interface; the C library has none.
struct sched_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void processor_short_slices(void)
{
    enum { SLICE_NS = 100000 };
    struct sched_attributes attributes = {0};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER)
        return;
    attributes.runtime_ns = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}
