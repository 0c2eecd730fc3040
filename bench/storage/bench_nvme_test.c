// SPDX-License-Identifier: Apache-2.0
// Tests of `bench nvme`: wrong and stale data is found, streams keep their time and rate, and records name case and
// baseline.
#include "bench/table/benchmarks.h"
#include "bench/storage/bench_nvme.h"

#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "ref/tier/storage_test.h"

#include <jansson.h>

enum { BLOCK = IO_ALIGNMENT };

static const char *const folders[] = {storage_folder, storage_second_folder};

static struct nvme_files written_files(int count)
{
    struct nvme_files files;
    cr_assert_eq(nvme_files_open(folders, count, 4 << 20, false, &files), ERR_NONE, "%s", err_message());
    cr_assert_eq(stream_all(&files, STREAM_WRITE), ERR_NONE, "%s", err_message());
    return files;
}

static struct stream stream_of(struct nvme_files *files, enum stream_direction direction)
{
    return (struct stream){.files = files, .direction = direction, .block_bytes = 16 * BLOCK, .depth = 4, .seconds = 9};
}

// Makes one pass over all files. *bytes: how many it moved.
static int one_pass(struct stream stream, uint64_t *bytes)
{
    struct stream_result result;
    stream.block_max = stream.files->bytes / stream.block_bytes * (uint64_t)stream.files->count;
    int code = stream_run(&stream, &result);
    *bytes = result.bytes;
    free(result.latencies_ns);
    return code;
}

Test(bench_nvme, a_stream_moves_and_verifies_every_block)
{
    for (int count = 1; count <= 2; count++) {
        struct nvme_files files = written_files(count);
        for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
            for (int direction = 0; direction < STREAM_DIRECTION_COUNT; direction++) {
                if (!storage_has((enum nvme_engine)engine))
                    continue;
                struct stream stream = stream_of(&files, (enum stream_direction)direction);
                stream.engine = (enum nvme_engine)engine;
                uint64_t bytes;
                cr_assert_eq(one_pass(stream, &bytes), ERR_NONE, "%s", err_message());
                cr_expect_eq(bytes, (uint64_t)count * (4 << 20));
                cr_assert_eq(stream_all(&files, STREAM_READ), ERR_NONE, "%s", err_message());
            }
        nvme_files_close(&files);
    }
}

Test(bench_nvme, a_stream_ends_when_its_time_is_over_and_times_single_requests)
{
    struct nvme_files files = written_files(1);
    struct stream stream = {
        .files = &files, .direction = STREAM_WRITE, .block_bytes = BLOCK, .depth = 1, .random = true, .seconds = 0.2};
    struct stream_result result;
    cr_assert_eq(stream_run(&stream, &result), ERR_NONE, "%s", err_message());
    cr_expect(result.ns >= 199000000 && result.ns < 200000000000, "%llu ns", (unsigned long long)result.ns);
    cr_assert_gt(result.request_count, 0);
    cr_expect_eq(result.bytes, result.request_count * BLOCK);
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < result.request_count; i++) {
        cr_assert_gt(result.latencies_ns[i], 0);
        sum_ns += result.latencies_ns[i];
    }
    cr_expect_leq(sum_ns, result.ns, "requests run one after the other");
    cr_expect_gt(sum_ns, result.ns / 100, "most of the time is theirs, where no other program takes it");
    free(result.latencies_ns);
    cr_expect_eq(stream_all(&files, STREAM_READ), ERR_NONE, "%s", err_message());
    nvme_files_close(&files);
}

// An emulated disk never exceeds its rate; a direction without an emulated rate is not throttled.
Test(bench_nvme, an_emulated_disk_takes_its_time_for_all_that_it_moves)
{
    static const struct {
        enum stream_direction direction;
        const char *emulate;
        double least_ns;
    } runs[] = {
        {STREAM_READ, "nvme-read=0.04", 4 / 0.04},
        {STREAM_READ, "nvme-write=0.001", 0},
        {STREAM_WRITE, "nvme-write=0.04,nvme-read=0.001", 4 / 0.04},
        {STREAM_MIXED, "nvme-read=0.02", 2 / 0.02},
        {STREAM_MIXED, "nvme-write=0.01,nvme-read=0.02", 2 / 0.01},
    };
    struct nvme_files files = written_files(1);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct stream stream = stream_of(&files, runs[i].direction);
        struct stream_result result;
        struct emulation emulation;
        cr_assert_eq(emulation_parse(runs[i].emulate, &emulation), ERR_NONE, "%s", err_message());
        stream.block_max = files.bytes / stream.block_bytes;
        stream.emulation = &emulation;
        cr_assert_eq(stream_run(&stream, &result), ERR_NONE, "%s", err_message());
        cr_expect_eq(result.bytes, files.bytes);
        cr_expect_geq((double)result.ns, 0.999 * runs[i].least_ns * (1 << 20), "%s: %llu ns", runs[i].emulate,
                      (unsigned long long)result.ns);
        cr_expect_lt(result.ns, 4000000000u, "%s: the other lane's rate does not matter", runs[i].emulate);
        free(result.latencies_ns);
    }
    nvme_files_close(&files);
}

// Overwrites the 4 KiB at `to` with other contents of a file.
static void put(const struct nvme_files *files, off_t to, const unsigned char *block)
{
    cr_assert_eq(pwrite(files->folders[0].file, block, BLOCK, to), BLOCK);
}

static void get(const struct nvme_files *files, off_t from, unsigned char *block)
{
    cr_assert_eq(pread(files->folders[0].file, block, BLOCK, from), BLOCK);
}

static void expect_found(struct nvme_files *files, bool at_once, const char *what)
{
    uint64_t bytes;
    int code = one_pass(stream_of(files, STREAM_READ), &bytes);
    cr_expect_eq(code, at_once ? ERR_CHECK : ERR_NONE, "%s: %s", what, err_message());
    cr_expect_eq(stream_all(files, STREAM_READ), ERR_CHECK, "%s", what);
    cr_expect(strstr(err_message(), storage_folder), "%s: %s", what, err_message());
    cr_expect(strstr(err_message(), ": data read at offset 81920 "), "%s: %s", what, err_message());
}

// Writes some blocks of two files, then damages the last one of each file.
static void expect_read_back(size_t block_bytes, uint64_t blocks)
{
    struct nvme_files files;
    struct stream_result result;
    cr_assert_eq(nvme_files_open(folders, 2, 16 << 20, false, &files), ERR_NONE, "%s", err_message());
    cr_assert_eq(stream_all(&files, STREAM_WRITE), ERR_NONE, "%s", err_message());
    struct stream stream = stream_of(&files, STREAM_WRITE);
    stream.block_bytes = block_bytes;
    stream.depth = 2;
    stream.block_max = blocks;
    cr_assert_eq(stream_run(&stream, &result), ERR_NONE, "%s", err_message());
    cr_assert_eq(result.bytes, blocks * block_bytes);
    cr_assert_eq(stream_read_back(&files, result.bytes, block_bytes), ERR_NONE, "%s", err_message());
    for (int file = 0; file < 2 && (uint64_t)file < blocks; file++) {
        unsigned char *block = storage_memory(BLOCK);
        uint64_t in_file = (blocks + 1 - (uint64_t)file) / 2;
        off_t last = (off_t)(in_file * block_bytes - BLOCK);
        cr_assert_eq(pread(files.folders[file].file, block, BLOCK, last), BLOCK);
        block[BLOCK - 1] ^= 1;
        cr_assert_eq(pwrite(files.folders[file].file, block, BLOCK, last), BLOCK);
        cr_expect_eq(stream_read_back(&files, result.bytes, block_bytes), ERR_CHECK, "file %d, %llu of %zu", file,
                     (unsigned long long)blocks, block_bytes);
        block[BLOCK - 1] ^= 1;
        cr_assert_eq(pwrite(files.folders[file].file, block, BLOCK, last), BLOCK);
        free(block);
    }
    nvme_files_close(&files);
}

Test(bench_nvme, what_was_written_is_read_back_to_its_last_byte)
{
    for (uint64_t blocks = 1; blocks <= 9; blocks++)
        expect_read_back(3 * BLOCK * 64, blocks);
    expect_read_back(BLOCK, 1);
    expect_read_back(2 << 20, 5);
    expect_read_back(1 << 20, 32);
}

Test(bench_nvme, stale_misplaced_torn_and_damaged_blocks_are_found)
{
    struct nvme_files files = written_files(1);
    unsigned char *old = storage_memory(BLOCK), *now = storage_memory(BLOCK), *other = storage_memory(BLOCK);
    const off_t at = 20 * BLOCK;
    get(&files, at, old);
    cr_assert_eq(stream_all(&files, STREAM_WRITE), ERR_NONE, "%s", err_message());
    get(&files, at, now);
    put(&files, at, old);
    expect_found(&files, true, "stale");
    get(&files, 0, other);
    put(&files, at, other);
    expect_found(&files, true, "misplaced");
    memcpy(other, now, BLOCK / 2);
    memcpy(other + BLOCK / 2, old + BLOCK / 2, BLOCK / 2);
    put(&files, at, other);
    expect_found(&files, false, "torn");
    memcpy(other, now, BLOCK);
    other[3000] ^= 1;
    put(&files, at, other);
    expect_found(&files, false, "one bit");
    put(&files, at, now);
    cr_expect_eq(stream_all(&files, STREAM_READ), ERR_NONE, "%s", err_message());
    free(old);
    free(now);
    free(other);
    nvme_files_close(&files);
}

static const char *const first_words[] = {"nvme", "--nvme-path", storage_folder, NULL};
static const char *const twice[] = {"nvme", "--nvme-path", storage_folder, "--nvme-path", storage_folder, NULL};

static int run(const char *words, char **text)
{
    return printed_run(bench_nvme.run, first_words, words, text);
}

// Counts the records of that name and checks their fields.
static int lines_of(const char *text, const char *name, bool baseline)
{
    int count = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        cr_assert_not_null(record, "%s", line);
        if (strcmp(json_string_value(json_object_get(record, "name")), name) == 0) {
            count++;
            cr_expect_gt(json_number_value(json_object_get(record, "median")), 0, "%s", line);
            cr_expect(json_is_true(json_object_get(record, "verified")), "%s", line);
            cr_expect_eq(json_number_value(json_object_get(record, "ratio")) > 0, baseline, "%s", line);
            cr_expect_eq(json_is_object(json_object_get(record, "yardstick")), baseline, "%s", line);
        }
        json_decref(record);
    }
    return count;
}

#define SMALL "--size 4M --sizes 64K,128K --depths 1,4 --seconds 0.06 --repeat 1 --engine libaio"

Test(bench_nvme, without_fio_records_have_no_ratio)
{
    char *text;
    cr_assert_eq(printed_run(bench_nvme.run, twice, SMALL " --no-fio --json", &text), 0);
    cr_expect_eq(lines_of(text, "nvme", false), 3 * 2 * 2, "%s", text);
    cr_expect_eq(lines_of(text, "nvme_latency", false), 2, "%s", text);
    cr_expect_eq(lines_of(text, "nvme_checksum", true), 2, "%s", text);
    free(text);
}

// Counts the rates whose case names an emulated lane; each must stay below the lane's rate.
static int emulated_count(const char *text, const char *lanes, double limit)
{
    int count = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        const char *said = json_string_value(json_object_get(json_object_get(record, "case"), "lanes"));
        if (said && strcmp(said, lanes) == 0) {
            count++;
            cr_expect_leq(json_number_value(json_object_get(record, "median")), limit, "%s", line);
        }
        json_decref(record);
    }
    return count;
}

Test(bench_nvme, emulated_lanes_are_named_where_they_are_used)
{
    char *text;
    cr_assert_eq(run(SMALL " --no-fio --json --emulate nvme-read=0.05,h2d=1", &text), 0);
    cr_expect_eq(lines_of(text, "nvme", false), 3 * 2 * 2, "%s", text);
    // Reads alone, and with as many writes.
    cr_expect_eq(emulated_count(text, "EMULATED nvme-read=0.05", 0.1), 2 * 2 * 2, "%s", text);
    free(text);
}

Test(bench_nvme, with_fio_records_have_its_version_and_a_ratio)
{
    char version[FIO_VERSION_BYTES], *text;
    if (fio_version(version) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", err_message());
        return;
    }
    cr_assert_eq(printed_run(bench_nvme.run, twice, SMALL " --direction read --json", &text), 0);
    cr_expect_eq(lines_of(text, "nvme", true), 2 * 2, "%s", text);
    cr_expect_eq(lines_of(text, "nvme_latency", true), 1, "%s", text);
    cr_expect(strstr(text, version), "%s", text);
    free(text);
}

Test(bench_nvme, the_text_output_names_files_and_a_missing_baseline)
{
    char *text;
    cr_assert_eq(run(SMALL " --direction write --no-fio", &text), 0);
    cr_expect(strstr(text, "files of 4 MiB in "), "%s", text);
    cr_expect(strstr(text, storage_folder), "%s", text);
    cr_expect(strstr(text, "without fio there is no ratio"), "%s", text);
    cr_expect(strstr(text, "write  libaio      128 KiB      4 "), "%s", text);
    cr_expect(strstr(text, "p99.9"), "%s", text);
    cr_expect(strstr(text, "GB/s with, "), "%s", text);
    free(text);
}

Test(bench_nvme, bad_options_are_refused)
{
    static const char *const bad[] = {"--engine aio",
                                      "--direction up",
                                      "--size 5000",
                                      "--sizes 5000",
                                      "--depths 100000",
                                      "--emulate disk=1",
                                      "--threads 2",
                                      "--seconds -1",
                                      "--size 4M --nvme-path /nowhere --no-fio",
                                      "--size 32T",
                                      NULL};
    printed_expect_refused(bench_nvme.run, first_words, bad);
}
