// SPDX-License-Identifier: Apache-2.0
#include "base/folder_test.h"
#include "base/processor.h"

#include <criterion/criterion.h>

#include <elf.h>
#include <unistd.h>

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
