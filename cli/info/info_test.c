// SPDX-License-Identifier: Apache-2.0
// Compares the facts about the machine with those of the C library.
#include "base/build.h"
#include "base/err.h"
#include "base/pretended_test.h"
#include "cli/info/health_counters.h"
#include "cli/info/info.h"
#include "ref/arithmetic/isa.h"
#include "ref/tier/io.h"
#include "results/record/record.h"
#include "results/record/record_check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

Test(info, the_machine_matches_the_c_library)
{
    json_t *info = info_collect();
    cr_assert_not_null(info);
    const json_t *machine = json_object_get(info, "machine");
    cr_assert_eq(json_integer_value(json_object_get(machine, "threads")), sysconf(_SC_NPROCESSORS_ONLN));
    cr_assert_geq(json_integer_value(json_object_get(machine, "sockets")), 1);
    cr_assert_geq(json_integer_value(json_object_get(machine, "memory_bytes")), 1 << 20);
    json_decref(info);
}

Test(info, the_instruction_set_in_use_is_among_the_available)
{
    json_t *info = info_collect();
    const json_t *isa = json_object_get(info, "isa"), *name;
    size_t index, found = 0;
    json_array_foreach (json_object_get(isa, "available"), index, name)
        found += strcmp(json_string_value(name), isa_name(isa_now())) == 0;
    cr_assert_eq(found, 1);
    cr_assert_str_eq(json_string_value(json_object_get(isa, "used")), isa_name(isa_now()));
    json_decref(info);
}

Test(info, a_missing_part_has_its_reason)
{
    json_t *info = info_collect();
    size_t index, absent = 0;
    const json_t *backend;
    json_array_foreach (json_object_get(info, "backends"), index, backend) {
        cr_assert_str_not_empty(json_string_value(json_object_get(backend, "note")));
        absent += json_is_false(json_object_get(backend, "built_in"));
    }
    cr_assert_lt(absent, index);
    json_decref(info);
}

Test(info, every_io_engine_is_usable_or_has_a_reason)
{
    json_t *info = info_collect();
    size_t index, found = 0;
    const json_t *backend;
    json_array_foreach (json_object_get(info, "backends"), index, backend) {
        const char *name = json_string_value(json_object_get(backend, "name"));
        const json_t *usable = json_object_get(backend, "usable");
        enum nvme_engine engine;
        if (io_engine_parse(name, &engine) != ERR_NONE)
            continue;
        found++;
        struct io_queue *queue;
        bool opened = io_queue_open(io_engine_of(engine), 1, &queue) == ERR_NONE;
        if (opened)
            io_queue_close(queue);
        cr_expect(json_is_boolean(usable) && json_is_true(usable) == opened, "%s", name);
        cr_expect_str_not_empty(json_string_value(json_object_get(backend, "note")));
    }
    cr_expect_eq(found, NVME_ENGINE_COUNT);
    json_decref(info);
}

// Returns the object of this name in a list; null: there is none.
static const json_t *named(const json_t *list, const char *name)
{
    size_t index;
    const json_t *object;
    json_array_foreach (list, index, object)
        if (strcmp(json_string_value(json_object_get(object, "name")), name) == 0)
            return object;
    return NULL;
}

Test(info, a_program_in_the_path_is_found_with_its_version)
{
    char folder[PATH_MAX], path[PATH_MAX + 8], search[2 * PATH_MAX];
    static const char script[] = "#!/bin/sh\n[ \"$1\" = --version ] && printf 'fio-\\03399\\nmore\\n'\n";
    folder_make(folder);
    snprintf(path, sizeof path, "%s/fio", folder);
    folder_write(path, script, sizeof script - 1);
    cr_assert_eq(chmod(path, 0700), 0);
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", folder);
    setenv("PATH", search, 1);
    json_t *programs = info_programs();
    const json_t *fio = named(programs, "fio");
    cr_expect_str_eq(json_string_value(json_object_get(fio, "path")), path);
    // A terminal would interpret it.
    cr_expect_str_eq(json_string_value(json_object_get(fio, "version")), "fio-\\x1b99");
    json_decref(programs);
    folder_remove(folder);
}

Test(info, a_missing_program_has_its_package_and_purpose)
{
    char folder[PATH_MAX];
    size_t index;
    const json_t *program;
    setenv("PATH", folder_make(folder), 1);
    json_t *programs = info_programs();
    cr_assert_geq(json_array_size(programs), 6);
    json_array_foreach (programs, index, program) {
        cr_expect(json_is_null(json_object_get(program, "path")));
        cr_expect(json_is_null(json_object_get(program, "version")));
        cr_expect_str_not_empty(json_string_value(json_object_get(program, "package")));
        cr_expect_str_not_empty(json_string_value(json_object_get(program, "enables")));
    }
    json_decref(programs);
    folder_remove(folder);
}

Test(info, the_build_reports_its_mpi)
{
    json_t *build = build_facts();
    const json_t *mpi = json_object_get(json_object_get(build, "libraries"), "MPI");
#ifdef ZG_HAVE_MPI
    cr_expect_not_null(strpbrk(json_string_value(mpi), "123456789"));
    cr_expect_null(strpbrk(json_string_value(mpi), ",\n"));
#else
    cr_expect_null(mpi);
#endif
    json_decref(build);
}

Test(info, unknown_options_are_usage_errors)
{
    cr_assert_eq(info_main(2, (const char *[]){"info", "--jsn", NULL}), 2);
    cr_assert_eq(info_main(2, (const char *[]){"info", "now", NULL}), 2);
    cr_assert_eq(info_main(3, (const char *[]){"info", "--mesh", "shard", NULL}), 2);
    cr_assert_eq(info_main(5, (const char *[]){"info", "--mesh", "shard=2", "--world", "3", NULL}), 2);
    cr_assert_eq(info_main(3, (const char *[]){"info", "--world", "3", NULL}), 2);
}

Test(info, a_mesh_has_its_ranks_coordinates_and_groups)
{
    json_t *mesh = NULL;
    cr_assert_eq(info_mesh_collect("tensor=2,shard=3", 6, &mesh), ERR_NONE);
    json_t *expected = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i}", "rank", 3, "tensor", 1, "shard", 1, "replicate", 0,
                                 "pipeline", 0, "expert", 0);
    cr_expect(json_equal(json_array_get(json_object_get(mesh, "ranks"), 3), expected));
    json_decref(expected);
    expected = json_pack("[[i,i,i],[i,i,i]]", 0, 2, 4, 1, 3, 5);
    cr_expect(json_equal(json_object_get(json_object_get(mesh, "groups"), "shard"), expected));
    json_decref(expected);
    json_decref(mesh);
}

static const char *note_of(const json_t *backends, const char *name)
{
    return json_string_value(json_object_get(named(backends, name), "note"));
}

Test(info, the_cuda_parts_are_reported)
{
    json_t *list = json_array(), *none = json_null();
    json_t *absent = json_pack("{s:s, s:n, s:s, s:n, s:[]}", "runtime", "13.0", "driver", "absent",
                               "no CUDA device: NVIDIA's driver is not loaded", "cublas", "devices");
    json_t *found =
        json_pack("{s:s, s:s, s:n, s:s, s:[{s:s, s:s, s:I, s:i, s:i, s:s}]}", "runtime", "13.0", "driver", "13.1",
                  "absent", "cublas", "13.1.0", "devices", "name", "A GPU", "compute_capability", "9.0", "memory_bytes",
                  (json_int_t)1 << 36, "multiprocessors", 132, "copy_engines", 3, "pci", "0000:3b:00");
    info_cuda_backends(none, list);
    cr_expect_eq(json_array_size(list), 1u);
    cr_expect(json_is_false(json_object_get(named(list, "cuda"), "built_in")));
    json_array_clear(list);
    info_cuda_backends(absent, list);
    cr_expect(json_is_true(json_object_get(named(list, "cuda"), "built_in")));
    cr_expect(strstr(note_of(list, "cuda"), "runtime 13.0; no CUDA device: NVIDIA's driver is not loaded"), "%s",
              note_of(list, "cuda"));
    cr_expect(json_is_false(json_object_get(named(list, "cublas"), "built_in")));
    json_array_clear(list);
    info_cuda_backends(found, list);
    cr_expect(strstr(note_of(list, "cuda"), "runtime 13.0, driver 13.1, devices: 1"), "%s", note_of(list, "cuda"));
    cr_expect(strstr(note_of(list, "cublas"), "13.1.0"), "%s", note_of(list, "cublas"));
    json_decref(list);
    json_decref(none);
    json_decref(absent);
    json_decref(found);
}

Test(info, cuda_is_null_only_in_a_build_without_it)
{
    json_t *info = info_collect();
    const json_t *cuda = json_object_get(info, "cuda");
#ifdef ZG_HAVE_CUDA
    int major = 0;
    cr_expect_eq(sscanf(json_string_value(json_object_get(cuda, "runtime")), "%d.", &major), 1);
    cr_expect_geq(major, 11);
    // The output lists the devices or gives the reason for none.
    bool listed = json_array_size(json_object_get(cuda, "devices")) > 0;
    cr_expect_eq(listed, json_is_null(json_object_get(cuda, "absent")));
#else
    cr_expect(json_is_null(cuda));
#endif
    json_decref(info);
}

// A pretended /proc and /sys.

static char root[PATH_MAX], reason[128];

Test(health_counters, a_system_that_says_nothing_has_no_numbers)
{
    struct health_counters counters;
    setenv("ZG_MACHINE_ROOT", folder_make(root), 1);
    health_counters_read(&counters);
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(counters.values[i]), "%d", i);
    cr_expect_not(health_counters_worse(&counters, &counters, reason, sizeof reason));
    folder_remove(root);
}

Test(health_counters, numbers_of_all_devices_are_combined_and_growth_is_a_reason)
{
    struct health_counters before, after, again;
    setenv("ZG_MACHINE_ROOT", folder_make(root), 1);
    pretended_file(root, "proc/interrupts",
                   "           CPU0       CPU1\n NMI:  1  2   Non-maskable\n MCE:          1          2   "
                   "Machine check exceptions\n MCP:         40         41   Machine check polls\n");
    pretended_file(root, "sys/devices/system/edac/mc/mc0/ce_count", "5\n");
    pretended_file(root, "sys/devices/system/edac/mc/mc1/ce_count", "2\n");
    pretended_file(root, "sys/devices/system/edac/mc/mc0/ue_count", "0\n");
    pretended_file(root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n");
    pretended_file(root, "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "5\n");
    pretended_file(root, "sys/bus/pci/devices/0000:01:00.0/aer_dev_correctable",
                   "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3\n");
    pretended_file(root, "sys/bus/pci/devices/0000:01:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 0\n");
    pretended_file(root, "sys/bus/pci/devices/0000:01:00.0/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1\n");
    pretended_file(root, "sys/bus/pci/devices/0000:01:00.0/current_link_width", "8\n");
    pretended_file(root, "sys/bus/pci/devices/0000:01:00.0/max_link_width", "16\n");
    pretended_file(root, "sys/bus/pci/devices/0000:02:00.0/current_link_width", "0\n");
    pretended_file(root, "sys/bus/pci/devices/0000:02:00.0/max_link_width", "16\n");
    pretended_file(root, "sys/class/hwmon/hwmon0/temp1_input", "45000\n");
    pretended_file(root, "sys/class/hwmon/hwmon0/name", "k10temp\n");
    pretended_file(root, "sys/class/hwmon/hwmon1/temp1_input", "61500\n");
    pretended_file(root, "sys/class/hwmon/hwmon1/name", "nvme\n");
    pretended_file(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
    pretended_file(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
    health_counters_read(&before);
    const double expected[COUNTER_COUNT] = {3,    7,    0,   9,   3,   1,   1,   NAN, NAN, NAN, NAN, 61.5,
                                            61.5, 2500, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(expected[i]) ? isnan(before.values[i]) : fabs(before.values[i] - expected[i]) < 1e-9, "%d: %g",
                  i, before.values[i]);
    cr_expect_not(health_counters_worse(&before, &before, reason, sizeof reason));
    pretended_file(root, "sys/devices/system/edac/mc/mc1/ce_count", "4\n");
    pretended_file(root, "sys/class/hwmon/hwmon1/temp1_input", "91500\n");
    health_counters_read(&after);
    cr_expect(health_counters_worse(&before, &after, reason, sizeof reason));
    cr_expect_str_eq(reason, "corrected memory errors: 2 during the run");
    json_t *object = health_counters_json(&before, &after);
    cr_expect_eq(json_number_value(json_object_get(json_object_get(object, "memory_errors_corrected"), "after")), 9);
    cr_expect_eq(health_counters_from_json(object, &again), ERR_NONE);
    for (int i = 0; i < COUNTER_COUNT; i++)
        cr_expect(isnan(after.values[i]) ? isnan(again.values[i]) : again.values[i] == after.values[i], "%d", i);
    cr_expect_eq(json_object_del(object, "gpu_power_w"), 0);
    cr_expect_eq(health_counters_from_json(object, &again), ERR_NONE, "a counter that an earlier version had not");
    cr_expect(isnan(again.values[COUNTER_GPU_POWER_W]));
    json_object_set_new(object, "thermal_throttles", json_integer(3));
    cr_expect_eq(health_counters_from_json(object, &again), ERR_USAGE);
    cr_expect(strstr(err_message(), "thermal_throttles"), "%s", err_message());
    json_decref(object);
    folder_remove(root);
}

// Two drives' log pages: 3 % used with 258 errors, 90 % spare and 310 K; 101 % with 1, 4 % spare, worn out and too hot
// at 358 K. A third does not report its temperature.
Test(health_counters, drives_report_warnings_errors_wear_spare_and_temperature)
{
    unsigned char first[HEALTH_NVME_LOG_BYTES] = {[1] = 310 & 255, [2] = 310 >> 8, [3] = 90, [5] = 3};
    unsigned char second[HEALTH_NVME_LOG_BYTES] = {[0] = 0x06, [1] = 358 & 255, [2] = 358 >> 8, [3] = 4, [5] = 101};
    const unsigned char third[HEALTH_NVME_LOG_BYTES] = {[3] = 100};
    struct health_nvme drives = {NAN, NAN, NAN, NAN, NAN};
    first[160] = 2;
    first[161] = 1;
    second[160] = 1;
    health_nvme_add(third, &drives);
    cr_expect(isnan(drives.temperature_c));
    health_nvme_add(first, &drives);
    cr_expect(drives.media_errors == 258 && drives.worn_percent == 3 && drives.spare_percent == 90);
    cr_expect(drives.warnings == 0 && drives.temperature_c == 37);
    health_nvme_add(second, &drives);
    cr_expect(drives.media_errors == 259 && drives.worn_percent == 101 && drives.spare_percent == 4);
    cr_expect(drives.warnings == 2 && drives.temperature_c == 85);
}

Test(health_counters, every_counter_that_grew_has_its_reason)
{
    struct health_counters before = {0}, after = {0};
    int worse = 0;
    for (int i = 0; i < COUNTER_COUNT; i++)
        after.values[i] = 2;
    for (int i = 0; i < COUNTER_COUNT; i++) {
        bool is_error = health_counter_error_key((enum health_counter)i) != NULL;
        cr_expect_eq(health_counter_worse((enum health_counter)i, &before, &after, reason, sizeof reason), is_error);
        cr_expect_not(health_counter_worse((enum health_counter)i, &after, &before, reason, sizeof reason));
        worse += is_error;
    }
    cr_expect_eq(worse, COUNTER_NVME_WARNINGS + 1 + COUNTER_GPU_SLOWED + 1 - COUNTER_GPU_ECC_CORRECTED);
}
