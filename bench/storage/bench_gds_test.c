// SPDX-License-Identifier: Apache-2.0
// Tests of `bench gds` over a stand-in for cuFile and the shadow accelerator: every case has its record, every byte is
// compared, and a wrong byte is an error that leaves no record.
#include "bench/table/benchmarks.h"
#include "bench/storage/bench_gds.h"

#include "ref/cuda/cufile_standin_test.h"
#include "bench/storage/gds_ways.h"
#include "ref/tier/storage_test.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

static const char *const folders[] = {storage_folder, storage_second_folder};
static const struct bench_device device = {&shadow_accelerator, 1};

// Files of some MiB in one or both folders, and the two ways of one setting.
struct rig {
    struct gds_files files;
    struct gds_ways *ways;
};

static int rig_open(struct rig *rig, int folder_count, size_t mib, size_t block_bytes, int flight_count)
{
    const char *path;
    cr_assert_eq(bench_device_enter(&device, 0), ERR_NONE);
    cr_assert_eq(io_cufile_open(&standin_calls, &path), ERR_NONE, "%s", err_message());
    cr_assert_eq(gds_files_open(folders, folder_count, mib << 20, &rig->files), ERR_NONE, "%s", err_message());
    const struct gds_setting setting = {
        .device = &device, .files = &rig->files, .block_bytes = block_bytes, .flight_count = flight_count};
    rig->ways = NULL;
    return gds_ways_open(&setting, &rig->ways);
}

static void rig_close(struct rig *rig)
{
    gds_ways_close(rig->ways);
    gds_files_close(&rig->files);
    io_cufile_close();
    cr_expect_eq(standin.file_count, 0);
    cr_expect_eq(standin.buffer_count, 0);
    cr_expect_eq(standin.driver_opens, standin.driver_closes);
    cr_expect_eq(shadow.block_count, 0);
    cr_expect_eq(shadow.lock_count, shadow.unlock_count);
}

Test(bench_gds, both_ways_move_every_byte_in_both_directions)
{
    static const struct {
        int folder_count;
        size_t block_bytes;
        int flight_count;
    } settings[] = {{1, 64 << 10, 1}, {2, 64 << 10, 3}, {1, 12 << 10, 7}, {2, 1 << 20, 1}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct rig rig;
        double rate = 0;
        cr_assert_eq(rig_open(&rig, settings[i].folder_count, 3, settings[i].block_bytes, settings[i].flight_count),
                     ERR_NONE, "%s", err_message());
        for (int file = 0; file < settings[i].folder_count; file++) {
            struct stat of;
            cr_assert_eq(fstat(rig.files.folders[file].file, &of), 0);
            cr_expect_eq(of.st_nlink, 0, "the file has a name and would stay");
        }
        cr_expect_eq(gds_ways_piece_bytes(rig.ways) % settings[i].block_bytes, 0);
        for (int sample = 0; sample < 8; sample++) {
            int before = standin.move_count;
            bool direct = sample & 1;
            cr_expect_eq(gds_ways_sample(rig.ways, sample & 2, direct, &rate), ERR_NONE, "%s", err_message());
            cr_expect_gt(rate, 0);
            int blocks = (int)((3u << 20) / settings[i].block_bytes) * settings[i].folder_count;
            cr_expect_eq(standin.move_count - before, direct ? blocks : 0);
        }
        rig_close(&rig);
    }
}

Test(bench_gds, files_that_cannot_be_opened_are_an_error_and_leave_nothing_open)
{
    static const char *const bad[] = {storage_folder, "/nowhere"};
    const char *path;
    struct gds_files files;
    cr_assert_eq(io_cufile_open(&standin_calls, &path), ERR_NONE);
    cr_expect_eq(gds_files_open(bad, 2, 1 << 20, &files), ERR_USAGE);
    cr_expect(strstr(err_message(), "/nowhere: "), "%s", err_message());
    cr_expect_eq(standin.file_total, 1);
    cr_expect_eq(standin.file_count, 0);
    cr_expect_eq(gds_files_open(bad, 1, UINT64_C(1) << 45, &files), ERR_IO);
    cr_expect_eq(standin.file_total, 2);
    cr_expect_eq(standin.file_count, 0);
    standin.file_status = (struct cufile_status){5027, 0};
    cr_expect_eq(gds_files_open(bad, 1, 1 << 20, &files), ERR_IO);
    cr_expect_eq(strncmp(err_message(), storage_folder, strlen(storage_folder)), 0, "%s", err_message());
    cr_expect_str_eq(err_message() + strlen(storage_folder),
                     ": the file there: Bad file descriptor: cuFileHandleRegister: "
                     "cuFile error 5027: cuFile does not recognise the file or its disk; see cufile.log");
    cr_expect(io_cufile_cannot_serve());
    standin.file_status = (struct cufile_status){5043, 0};
    cr_expect_eq(gds_files_open(bad, 1, 1 << 20, &files), ERR_IO);
    cr_expect_not(io_cufile_cannot_serve(), "%s", err_message());
    io_cufile_close();
}

Test(bench_gds, a_wrong_byte_is_an_error_that_names_its_place)
{
    static const char *const expected[] = {
        "gds: data read by cuFile is wrong in the 8 bytes at 163840 on the GPU, which belong to offset 163840 of the "
        "file in ",
        "gds: data written by cuFile is wrong in the 8 bytes at 163840 on the GPU, which belong to offset 163840 of "
        "the "
        "file in ",
    };
    struct rig rig;
    double rate;
    cr_assert_eq(rig_open(&rig, 1, 1, 64 << 10, 1), ERR_NONE, "%s", err_message());
    for (int write = 0; write < 2; write++) {
        standin.spoil_at = standin.move_count + 3;
        cr_expect_eq(gds_ways_sample(rig.ways, write, true, &rate), ERR_CHECK);
        size_t length = strlen(expected[write]);
        cr_expect_eq(strncmp(err_message(), expected[write], length), 0, "%s", err_message());
        cr_expect_str_eq(err_message() + length, storage_folder);
        cr_expect_eq(gds_ways_sample(rig.ways, write, true, &rate), ERR_NONE, "%s", err_message());
    }
    rig_close(&rig);
}

// Files and GPU hold the right bytes of earlier samples.
Test(bench_gds, bytes_that_do_not_move_are_found)
{
    struct rig rig;
    double rate;
    cr_assert_eq(rig_open(&rig, 2, 1, 64 << 10, 2), ERR_NONE, "%s", err_message());
    for (int sample = 0; sample < 4; sample++) {
        standin.drop_at = standin.move_count + 7;
        cr_expect_eq(gds_ways_sample(rig.ways, sample & 1, true, &rate), ERR_CHECK);
        cr_expect_eq(gds_ways_sample(rig.ways, true, sample & 2, &rate), ERR_NONE, "%s", err_message());
        cr_expect_eq(gds_ways_sample(rig.ways, false, sample & 2, &rate), ERR_NONE, "%s", err_message());
    }
    rig_close(&rig);
}

Test(bench_gds, a_cufile_error_is_named)
{
    struct rig rig;
    double rate;
    cr_assert_eq(rig_open(&rig, 2, 1, 64 << 10, 2), ERR_NONE, "%s", err_message());
    standin.fail_at = standin.move_count + 1;
    standin.fail_result = -5008;
    cr_expect_eq(gds_ways_sample(rig.ways, false, true, &rate), ERR_IO);
    cr_expect(strstr(err_message(), ": reading 65536 bytes at offset "), "%s", err_message());
    cr_expect(strstr(err_message(), "cuFile error 5008"), "%s", err_message());
    rig_close(&rig);
}

Test(bench_gds, too_many_requests_for_the_files_are_refused)
{
    struct rig rig;
    cr_expect_eq(rig_open(&rig, 1, 1, 64 << 10, 5), ERR_USAGE);
    cr_expect_str_eq(err_message(), "--size: 5 requests of 65536 bytes in flight need files of at least 1310720 bytes "
                                    "together");
    rig_close(&rig);
    cr_expect_eq(rig_open(&rig, 1, 1, 64 << 10, 4), ERR_NONE);
    rig_close(&rig);
    standin.buffer_status = (struct cufile_status){5016, 0};
    cr_expect_eq(rig_open(&rig, 1, 1, 64 << 10, 4), ERR_IO);
    cr_expect_str_eq(err_message(), "1048576 bytes of memory: cuFileBufRegister: cuFile error 5016: the limit of "
                                    "pinned memory is exceeded");
    rig_close(&rig);
}

static int run_cases(const struct gds_bench *bench, json_t **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes), *before = stdout;
    stdout = file;
    int code = gds_cases_run(bench);
    stdout = before;
    fclose(file);
    *out = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        json_array_append_new(*out, json_loads(line, 0, NULL));
    free(text);
    cr_expect_eq(shadow.block_count, 0);
    cr_expect_eq(standin.driver_opens, standin.driver_closes);
    return code;
}

static const struct bench_options case_options = {.sizes = {64 << 10, 128 << 10},
                                                  .size_count = 2,
                                                  .threads = {1, 2},
                                                  .thread_count = 2,
                                                  .repeat = 2,
                                                  .warmup = 1,
                                                  .json = true,
                                                  .storage = {.paths = folders, .path_count = 2}};

static const char *text_in(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(json_object_get(record, "case"), key));
}

Test(bench_gds, every_case_has_its_record_which_names_the_path_of_the_bytes)
{
    struct gds_bench bench = {&case_options, device, &standin_calls, 2 << 20, {true, true}, NVME_LIBAIO};
    json_t *records;
    size_t index;
    const json_t *record;
    standin.control_flags = CUFILE_ALLOWS_COMPATIBILITY;
    cr_assert_eq(run_cases(&bench, &records), ERR_NONE, "%s", err_message());
    cr_assert_eq(json_array_size(records), 8);
    json_array_foreach (records, index, record) {
        const json_t *of_case = json_object_get(record, "case");
        cr_expect_str_eq(text_in(record, "direction"), index < 4 ? "read" : "write");
        cr_expect_str_eq(text_in(record, "device"), "shadow");
        cr_expect(strstr(text_in(record, "path"), "compatibility mode"), "%s", text_in(record, "path"));
        cr_expect_eq(json_integer_value(json_object_get(of_case, "block_bytes")), index / 2 % 2 ? 128 << 10 : 64 << 10);
        cr_expect_eq(json_integer_value(json_object_get(of_case, "in_flight")), (json_int_t)index % 2 + 1);
        cr_expect_eq(json_integer_value(json_object_get(record, "items")), 4 << 20);
        cr_expect_eq(json_array_size(json_object_get(record, "samples")), 2);
        cr_expect_gt(json_number_value(json_object_get(record, "ratio")), 0);
        cr_expect_str_eq(json_string_value(json_object_get(json_object_get(record, "yardstick"), "name")),
                         "through host memory");
    }
    json_decref(records);
    bench.directions[0] = false;
    cr_expect_eq(run_cases(&bench, &records), ERR_NONE);
    cr_expect_eq(json_array_size(records), 4);
    json_decref(records);
}

Test(bench_gds, wrong_data_leaves_no_record)
{
    const struct gds_bench bench = {&case_options, device, &standin_calls, 2 << 20, {true, false}, NVME_LIBAIO};
    json_t *records;
    standin.spoil_at = 64 * 3;  // the last request of the last sample of the first case
    cr_expect_eq(run_cases(&bench, &records), ERR_CHECK);
    cr_expect_eq(json_array_size(records), 0);
    json_decref(records);
    standin.driver_status = (struct cufile_status){5043, 0};
    cr_expect_eq(run_cases(&bench, &records), ERR_IO);
    cr_expect_eq(json_array_size(records), 0);
    json_decref(records);
}

Test(bench_gds, a_machine_that_cufile_cannot_serve_is_skipped)
{
    const struct gds_bench bench = {&case_options, device, &standin_calls, 2 << 20, {true, false}, NVME_LIBAIO};
    json_t *records;
    standin.driver_status = (struct cufile_status){5001, 0};
    cr_expect_eq(run_cases(&bench, &records), ERR_NONE);
    cr_expect_eq(json_array_size(records), 0);
    json_decref(records);
    standin.driver_status = (struct cufile_status){0};
    standin.file_status = (struct cufile_status){5027, 0};
    cr_expect_eq(run_cases(&bench, &records), ERR_NONE);
    cr_expect_eq(json_array_size(records), 0);
    json_decref(records);
}

// Runs with standard error captured; returns the exit status.
static int command(const char *const arguments[], char *said, size_t said_bytes)
{
    const char *argv[8] = {"gds"};
    int argc = 1;
    while (arguments[argc - 1]) {
        argv[argc] = arguments[argc - 1];
        argc++;
    }
    FILE *file = tmpfile();
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int status = bench_gds.run(argc, argv);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, said_bytes - 1, file)] = '\0';
    fclose(file);
    return status;
}

Test(bench_gds, bad_input_is_refused)
{
    static const char *const bad[][4] = {
        {"--buffered", NULL, "--buffered: cuFile always bypasses the page cache"},
        {"--direction=mixed", NULL, "--direction mixed: expected read or write"},
        {"--sizes=3000", NULL, "--sizes 3000: a request must be a multiple of 4096 and divide --size (1073741824)"},
        {"--sizes=12K", NULL, "--sizes 12288: a request must be a multiple of 4096 and divide --size (1073741824)"},
        {"--size=1000000", NULL, "--size 1000000: expected a multiple of 1 MiB"},
        {"--threads=257", NULL, "--threads 257: at most 256 requests in flight"},
        {"--engine=cufile", NULL, "unknown I/O engine 'cufile'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char said[512];
        cr_expect_eq(command(bad[i], said, sizeof said), 2, "%s", bad[i][0]);
        cr_expect(strstr(said, bad[i][2]), "%s: %s", bad[i][0], said);
    }
}

Test(bench_gds, without_a_device_the_benchmark_is_skipped_with_the_reason)
{
    static const char *const arguments[] = {"--quick", "--nvme-path", storage_folder, NULL};
    char said[512];
    int status = command(arguments, said, sizeof said);
    if (status == 0) {
        printf("TEST SKIPPED: there is a device here, and cuFile\n");
        return;
    }
    cr_expect_eq(status, 77);
    cr_expect(strstr(said, "SKIP: gds: "), "%s", said);
}
