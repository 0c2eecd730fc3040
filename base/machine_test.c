// SPDX-License-Identifier: Apache-2.0
// The facts about the machine against those of the C library.
#include "base/build.h"
#include "base/machine.h"

#include <criterion/criterion.h>

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
