// SPDX-License-Identifier: Apache-2.0
// Tests of `bench comm`: its baselines, its records, and what it refuses.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "bench/comm/comm_case.h"
#include "bench/harness/printed_test.h"
#include "ref/arithmetic/shadow_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <stdatomic.h>
#include <string.h>

static double bus_bytes_of(enum operation operation, int world, bool uneven)
{
    struct comm_ranks ranks;
    size_t wrong_count;
    const struct comm_setting setting = {.operation = operation, .world = world, .count = 1000, .uneven = uneven};
    cr_assert_eq(comm_ranks_open(&setting, &ranks), ERR_NONE, "%s", err_message());
    double bytes = comm_ranks_bus_bytes(&ranks);
    cr_assert_eq(comm_ranks_close(&ranks, &wrong_count), ERR_NONE);
    return bytes;
}

Test(bench_comm, bus_bytes_are_the_bytes_that_the_busiest_rank_moves)
{
    // 1000 elements among 4 ranks: 250 each, or 100, 200, 300 and 400.
    cr_expect_eq(bus_bytes_of(REDUCE_SCATTER, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_TO_ALL, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_REDUCE, 4, false), 4 * 1500);
    cr_expect_eq(bus_bytes_of(BROADCAST, 4, false), 4 * 1000);
    cr_expect_eq(bus_bytes_of(REDUCE_SCATTER, 4, true), 4 * 900);
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 4, true), 4 * 900);
    cr_expect_eq(bus_bytes_of(ALL_TO_ALL, 4, true), 4 * 1200, "the last rank receives 400 from each of three");
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 1, false), 0);
}

static const char *const first_words[] = {"comm", NULL};
static const struct bench_device *used_device;  // null: the one that --device names

static int bench(int argc, const char **argv)
{
    return bench_comm_on(used_device, argc, argv);
}

static int run_on(const struct bench_device *device, const char *words, char **text)
{
    used_device = device;
    return printed_run(bench, first_words, words, text);
}

static int run(const char *words, char **text)
{
    return run_on(NULL, words, text);
}

enum { MEETINGS = 2000 };

struct guest {
    struct comm_rank rank;
    _Atomic int *written;  // by rank: the barrier that it enters
    int early_count;       // ranks that had not written before this one's barrier ended
    pthread_t thread;
};

static void *guest_run(void *argument)
{
    struct guest *guest = argument;
    for (int meeting = 1; meeting <= MEETINGS; meeting++) {
        atomic_store_explicit(&guest->written[guest->rank.index], meeting, memory_order_relaxed);
        cr_assert_eq(comm_rank_meet(&guest->rank), ERR_NONE);
        for (int rank = 0; rank < guest->rank.of->setting.world; rank++)
            guest->early_count += atomic_load_explicit(&guest->written[rank], memory_order_relaxed) < meeting;
    }
    return NULL;
}

Test(bench_comm, concurrent_ranks_leave_the_baselines_meeting_when_all_have_come)
{
    static const int worlds[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        static struct comm_ranks ranks;
        static _Atomic int written[8];
        static struct guest guests[8];
        ranks = (struct comm_ranks){.setting.world = worlds[i]};
        for (int rank = 0; rank < worlds[i]; rank++) {
            atomic_store(&written[rank], 0);
            guests[rank] = (struct guest){.rank = {.of = &ranks, .index = rank}, .written = written};
        }
        for (int rank = 0; rank < worlds[i]; rank++)
            cr_assert_eq(pthread_create(&guests[rank].thread, NULL, guest_run, &guests[rank]), 0);
        for (int rank = 0; rank < worlds[i]; rank++) {
            pthread_join(guests[rank].thread, NULL);
            cr_expect_eq(guests[rank].early_count, 0, "rank %d of %d", rank, worlds[i]);
        }
    }
}

Test(bench_comm, few_bytes_are_compared_with_a_meeting_and_copies)
{
    char *text;
    cr_assert_eq(run("--sizes 8,64K --repeat 1 --operation all-gather", &text), 0);
    cr_expect(strstr(text, "0  a line from each rank and memcpy\n"), "%s", text);
    cr_expect(strstr(text, "0  memcpy\n") || strstr(text, "0  copy around the caches\n"), "%s", text);
    free(text);
}

Test(bench_comm, a_json_line_names_the_case_and_its_baseline)
{
    char *text;
    cr_assert_eq(run("--world 3 --operation all-reduce --sizes 64K --repeat 10 --json", &text), 0);
    json_t *line = json_loads(text, 0, NULL);
    cr_assert_not_null(line, "%s", text);
    const char *name, *operation, *unit, *baseline;
    int world, wrong, verified;
    json_int_t buffer_bytes;
    double median, ratio, bus_bytes;
    json_t *samples;
    static const char *const form = "{s:s, s:{s:s, s:i, s:I}, s:{s:f, s:i}, s:o, s:f, s:s, s:b, s:{s:s}, s:f}";
    cr_assert_eq(json_unpack(line, form, "name", &name, "case", "operation", &operation, "world", &world,
                             "buffer_bytes", &buffer_bytes, "detail", "bus_bytes", &bus_bytes, "wrong", &wrong,
                             "samples", &samples, "median", &median, "unit", &unit, "verified", &verified, "yardstick",
                             "name", &baseline, "ratio", &ratio),
                 0, "%s", text);
    cr_expect_str_eq(name, "comm");
    cr_expect_str_eq(operation, "all-reduce");
    cr_expect_str_eq(unit, "ns");
    cr_expect_eq(world, 3);
    cr_expect_eq(buffer_bytes, 65532);
    cr_expect_float_eq(bus_bytes, 2 * 65532 * 2.0 / 3, 1e-6);
    cr_expect_eq(wrong, 0);
    cr_expect_null(json_object_get(json_object_get(line, "case"), "device"));
    cr_expect(verified && median > 0 && ratio > 0 && json_array_size(samples) == 10);
    json_decref(line);
    free(text);
}

Test(bench_comm, cases_in_16_bits_say_so_and_their_bytes_are_half)
{
    static const char *const names[] = {"bf16", "fp16"};
    for (int i = 0; i < 2; i++) {
        char words[128], *text;
        const char *dtype;
        json_int_t buffer_bytes;
        double bus_bytes;
        int verified;
        snprintf(words, sizeof words, "--world 3 --operation all-reduce --sizes 1000 --repeat 2 --dtype %s --json",
                 names[i]);
        cr_assert_eq(run(words, &text), 0);
        json_t *line = json_loads(text, 0, NULL);
        cr_assert_eq(json_unpack(line, "{s:{s:s, s:I}, s:{s:f}, s:b}", "case", "dtype", &dtype, "buffer_bytes",
                                 &buffer_bytes, "detail", "bus_bytes", &bus_bytes, "verified", &verified),
                     0, "%s", text);
        cr_expect_str_eq(dtype, names[i]);
        cr_expect_eq(buffer_bytes, 2 * 3 * 166);
        cr_expect_eq(bus_bytes, 2 * 2 * 2 * 166);
        cr_expect(verified);
        json_decref(line);
        free(text);
    }
}

Test(bench_comm, sums_of_more_ranks_than_16_bits_count_are_not_verified)
{
    static const struct {
        enum operation operation;
        enum dtype dtype;
        int world;
        bool exact;
    } rows[] = {{ALL_REDUCE, DTYPE_BF16, 256, true},      {ALL_REDUCE, DTYPE_BF16, 257, false},
                {REDUCE_SCATTER, DTYPE_BF16, 257, false}, {ALL_GATHER, DTYPE_BF16, 257, true},
                {ALL_REDUCE, DTYPE_FP16, 2048, true},     {ALL_REDUCE, DTYPE_FP16, 2049, false},
                {ALL_REDUCE, DTYPE_FP32, 4096, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct comm_setting setting = {
            .operation = rows[i].operation, .dtype = rows[i].dtype, .world = rows[i].world};
        cr_expect_eq(comm_ranks_sums_exactly(&setting), rows[i].exact, "row %zu", i);
    }
}

Test(bench_comm, a_table_names_the_type_of_16_bits)
{
    char *text;
    cr_assert_eq(run("--sizes 4K --repeat 1 --operation broadcast --dtype fp16", &text), 0);
    cr_expect(strstr(text, "2 ranks, in fp16; medians"), "%s", text);
    free(text);
    cr_assert_eq(run("--sizes 4K --repeat 1 --operation broadcast --dtype fp32", &text), 0);
    cr_expect(strstr(text, "2 ranks; medians"), "%s", text);
    free(text);
}

static const struct bench_device shadows = {&shadow_accelerator, 2};

static void expect_on_shadows(const char *words, const char *baseline)
{
    char *text;
    const char *transport, *device, *order, *name;
    int devices, verified;
    double ratio;
    cr_assert_eq(run_on(&shadows, words, &text), 0);
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert_eq(json_unpack(line, "{s:{s:s, s:s, s:i, s:s}, s:b, s:{s:s}, s:f}", "case", "transport", &transport,
                             "device", &device, "devices", &devices, "order", &order, "verified", &verified,
                             "yardstick", "name", &name, "ratio", &ratio),
                 0, "%s", text);
    cr_expect_str_eq(transport, "local");
    cr_expect_str_eq(device, "shadow");
    cr_expect_str_eq(order, "canonical");
    cr_expect_str_eq(name, baseline);
    cr_expect(devices == 2 && verified && ratio > 0, "%s", text);
    cr_expect_eq(shadow.block_count, 0);
    json_decref(line);
    free(text);
}

#define SHADOWS "--world 3 --operation reduce-scatter --repeat 2 --json --sizes "

Test(bench_comm, on_a_device_the_record_names_it_and_the_baseline_is_copies_there)
{
    expect_on_shadows(SHADOWS "64K", "a barrier and copies on the device");
    expect_on_shadows(SHADOWS "33M", "copies on the device");
}

Test(bench_comm, on_a_device_the_table_names_the_number_of_devices)
{
    char *text;
    cr_assert_eq(run_on(&shadows, "--sizes 4K --repeat 1 --operation broadcast", &text), 0);
    cr_expect(strstr(text, "2 ranks on 2 devices (shadow); medians"), "%s", text);
    cr_expect(strstr(text, " a barrier and copies on the device\n"), "%s", text);
    free(text);
}

static atomic_int folds_until_wrong;

static void wrong_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                       size_t count)
{
    shadow_fold(in_dtype, in, world, out_dtype, out, count);
    if (atomic_fetch_sub(&folds_until_wrong, 1) == 1)
        *(uint32_t *)at(out) ^= 1;
}

static void expect_wrong_bit_is_found(enum dtype dtype)
{
    struct isa_kernels kernels = shadow_kernels;
    struct accelerator wrong = shadow_accelerator;
    kernels.fold = wrong_fold;
    wrong.kernels = &kernels;
    const struct bench_device device = {&wrong, 1};
    folds_until_wrong = 7;
    // Large enough for one call per repetition, in which each rank folds once.
    const struct bench_options options = {.repeat = 5, .warmup = 1, .json = true};
    const struct comm_setting setting = {.device = &device,
                                         .operation = REDUCE_SCATTER,
                                         .dtype = dtype,
                                         .world = 2,
                                         .count = (4 << 20) / dtype_bytes(dtype),
                                         .in_place = true};
    struct printed printed = printed_begin();
    int code = comm_case_run(&options, &setting);
    char *text = printed_end(printed);
    cr_expect_eq(code, ERR_CHECK);
    cr_expect(strstr(err_message(), "reduce-scatter of 4194304 bytes among 2 ranks left 1 wrong elements"), "%s",
              err_message());
    cr_expect_str_eq(text, "");
    cr_expect_eq(shadow.block_count, 0);
    free(text);
}

Test(bench_comm, one_wrong_bit_on_a_device_is_an_error_and_leaves_no_record)
{
    expect_wrong_bit_is_found(DTYPE_FP32);
    expect_wrong_bit_is_found(DTYPE_BF16);
    expect_wrong_bit_is_found(DTYPE_FP16);
}

Test(bench_comm, an_absent_device_is_a_skip)
{
    char *text;
    struct bench_device device;
    bool absent;
    cr_assert_eq(bench_device_find("cuda", 2, false, &device, &absent), ERR_NONE);
    cr_expect_eq(run("--device cuda --quick --sizes 64 --repeat 1", &text), absent ? 77 : 0);
    cr_expect_eq(strlen(text) == 0, absent, "%s", text);
    free(text);
}

Test(bench_comm, a_table_has_a_row_for_each_operation_and_size)
{
    char *text;
    cr_assert_eq(run("--sizes 4K,8K --repeat 2", &text), 0);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++) {
        char row[64];
        snprintf(row, sizeof row, "%-15s %-9s %11d ", comm_ranks_operation_name(operation), "", 8192);
        cr_expect(strstr(text, row), "no \"%s\" in\n%s", row, text);
    }
    free(text);
}

Test(bench_comm, large_buffers_are_measured_uneven_and_in_place_too)
{
    char *text;
    cr_assert_eq(run("--sizes 1M --repeat 1 --operation reduce-scatter", &text), 0);
    cr_expect(strstr(text, "%  reduce-scatter                1048576 "), "%s", text);
    cr_expect(strstr(text, "%  reduce-scatter  uneven        1048576 "), "%s", text);
    cr_expect(strstr(text, "%  reduce-scatter  in place      1048576 "), "%s", text);
    free(text);
}

Test(bench_comm, an_unknown_device_operation_world_or_thread_count_is_refused)
{
    static const char *const bad[] = {"--device gpu", "--world 0", "--world 65",   "--operation gather",
                                      "--threads 2",  "--sizes x", "--dtype int8", NULL};
    printed_expect_refused(bench_comm.run, first_words, bad);
}
