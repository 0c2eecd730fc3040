// SPDX-License-Identifier: Apache-2.0
// Tests of `bench pcie` over simulated devices: every case has its record, and a wrong byte is an error.
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "ref/tier/storage_test.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Simulated devices use host memory; copy number `spoilt` changes a byte.
static struct {
    atomic_int copies, spoilt;
    atomic_int kinds[PCIE_PEER_MAPPED + 1];
    atomic_int entered[8], by_kernel, spoilt_by_kernel, waits;
    bool indirect, unknown;
} host;
static _Thread_local uint64_t begin_ns;
static _Thread_local size_t begun_bytes;

static int enter(int device)
{
    host.entered[device]++;
    return ERR_NONE;
}

static int device_open(size_t bytes, void **out)
{
    *out = malloc(bytes);
    return ERR_NONE;
}

static int host_open(enum pcie_memory kind, size_t bytes, void **out)
{
    host.kinds[kind]++;
    *out = malloc(bytes);
    return ERR_NONE;
}

static void host_close(enum pcie_memory kind, void *memory, size_t bytes)
{
    (void)kind, (void)bytes;
    free(memory);
}

static int copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    begun_bytes += bytes;
    if (++host.copies == host.spoilt)
        ((char *)to)[bytes / 2] ^= 4;
    return ERR_NONE;
}

static int copy_by_kernel(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    begun_bytes += bytes;
    if (++host.by_kernel == host.spoilt_by_kernel)
        ((char *)to)[1] ^= 4;
    return ERR_NONE;
}

static int reach(int other, bool *directly)
{
    (void)other;
    *directly = !host.indirect;
    return ERR_NONE;
}

static int begin(void)
{
    begin_ns = clock_now_ns();
    begun_bytes = 0;
    return ERR_NONE;
}

// Simulates a link of 8 GB/s.
static int end(double *ms)
{
    *ms = (double)begun_bytes / 8e9 * 1e3;
    return begin_ns == 0 ? ERR_INTERNAL : ERR_NONE;
}

static int wait_for_copies(void)
{
    host.waits++;
    return ERR_NONE;
}

// Twice the rate that is simulated; between devices, four times.
static double gb_per_s(int device, int peer, char name[])
{
    (void)device;
    if (peer >= 0 && !host.unknown) {
        snprintf(name, PCIE_NAME_BYTES, "NVLink x%d", peer);
        return 32;
    }
    return host.unknown ? pcie_lanes_gb_per_s(0, 16, name) : pcie_lanes_gb_per_s(1, 64, name);
}

static struct pcie_link link_of(int device_count)
{
    return (struct pcie_link){device_count, enter,          device_open,     free,  host_open, host_close, reach,
                              copy,         copy_by_kernel, wait_for_copies, begin, end,       gb_per_s,   "simulated"};
}

Test(pcie, the_rate_covers_all_streams_together)
{
    const struct pcie_link link = link_of(3);
    for (int direction = 0; direction < PCIE_DIRECTION_COUNT; direction++)
        for (int devices = 1; devices <= 3; devices++) {
            struct pcie_setting s = {&link,       3 - devices, devices,  (enum pcie_direction)direction,
                                     PCIE_PINNED, 0,           96 << 10, 32 << 10};
            struct pcie_copies *copies;
            double rate;
            cr_assert_eq(pcie_copies_open(&s, &copies), ERR_NONE, "%s", err_message());
            for (int i = 0; i < 3; i++) {
                cr_assert_eq(pcie_copies_sample(copies, &rate), ERR_NONE, "%s", err_message());
                cr_expect_float_eq(rate, 8e9 * devices * (direction == PCIE_BOTH ? 2 : 1), 1);
            }
            pcie_copies_close(copies);
        }
    cr_expect_eq(host.entered[2], 12);  // by every stream of every set
    cr_expect_eq(host.entered[0], 4);
}

Test(pcie, a_wrong_byte_is_an_error_that_names_it)
{
    const struct pcie_link link = link_of(2);
    for (int direction = 0; direction < PCIE_BOTH; direction++) {
        struct pcie_setting s = {&link, 1, 1, (enum pcie_direction)direction, PCIE_PAGEABLE, 0, 4096, 1024};
        struct pcie_copies *copies;
        double rate;
        cr_assert_eq(pcie_copies_open(&s, &copies), ERR_NONE);
        cr_assert_eq(pcie_copies_sample(copies, &rate), ERR_NONE, "%s", err_message());
        // To a device, a copy clears the target first.
        host.spoilt = host.copies + (direction == PCIE_H2D ? 1 : 0) + 3;
        cr_assert_eq(pcie_copies_sample(copies, &rate), ERR_CHECK);
        char expected[128];
        snprintf(expected, sizeof expected, "pcie: byte 2560 of 4096 copied %s device 1 is wrong",
                 direction == PCIE_H2D ? "to" : "from");
        cr_expect_str_eq(err_message(), expected);
        pcie_copies_close(copies);
        host.spoilt = 0;
    }
}

Test(pcie, a_wrong_byte_between_devices_is_an_error_that_names_both)
{
    const struct pcie_link link = link_of(3);
    for (int direction = 0; direction < PCIE_BOTH; direction++)
        for (int mapped = 0; mapped < 2; mapped++) {
            struct pcie_setting s = {
                &link, 2, 1, (enum pcie_direction)direction, mapped ? PCIE_PEER_MAPPED : PCIE_PEER, 2, 4096, 1024};
            struct pcie_copies *copies;
            double rate;
            cr_assert_eq(pcie_copies_open(&s, &copies), ERR_NONE);
            cr_assert_eq(pcie_copies_sample(copies, &rate), ERR_NONE, "%s", err_message());
            // A copy clears the target first.
            host.spoilt = mapped ? 0 : host.copies + 1 + 2;
            host.spoilt_by_kernel = mapped ? host.by_kernel + 2 : 0;
            cr_assert_eq(pcie_copies_sample(copies, &rate), ERR_CHECK);
            char expected[128];
            snprintf(expected, sizeof expected, "pcie: byte %d of 4096 copied %s device 1 by device 2 is wrong",
                     mapped ? 1025 : 1536, direction == PCIE_H2D ? "from" : "to");
            cr_expect_str_eq(err_message(), expected);
            pcie_copies_close(copies);
        }
}

static int fail_to_open(size_t bytes, void **out)
{
    (void)out;
    return err_set(ERR_MEMORY, "no %zu bytes there", bytes);
}

Test(pcie, too_little_device_memory_is_an_error_of_the_sample)
{
    struct pcie_link link = link_of(2);
    link.device_open = fail_to_open;
    struct pcie_setting s = {&link, 0, 2, PCIE_BOTH, PCIE_PINNED, 0, 4096, 4096};
    struct pcie_copies *copies;
    double rate;
    cr_assert_eq(pcie_copies_open(&s, &copies), ERR_NONE);
    cr_expect_eq(pcie_copies_sample(copies, &rate), ERR_MEMORY);
    cr_expect_str_eq(err_message(), "no 4096 bytes there");
    pcie_copies_close(copies);
}

// Standard output of a call as records.
static json_t *records_of(int (*run)(const void *context), const void *context)
{
    struct printed printed = printed_begin();
    int code = run(context);
    char *text = printed_end(printed);
    cr_assert_eq(code, ERR_NONE, "%s", err_message());
    json_t *records = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        json_array_append_new(records, json_loads(line, 0, NULL));
    free(text);
    return records;
}

static int run_cases(const void *context)
{
    const struct pcie_link *link = context;
    static const char *const paths[] = {storage_folder};
    struct bench_options options = {.sizes = {1 << 20, 64 << 10},
                                    .size_count = 2,
                                    .repeat = 2,
                                    .warmup = 1,
                                    .json = true,
                                    .storage = {.paths = paths, .path_count = 1}};
    return pcie_cases_run(link, &options, 2 << 20);
}

static json_t *cases_of(int device_count)
{
    const struct pcie_link link = link_of(device_count);
    return records_of(run_cases, &link);
}

// Those of a name; takes a reference.
static json_t *named(const json_t *records, const char *name)
{
    json_t *found = json_array();
    size_t index;
    json_t *record;
    json_array_foreach ((json_t *)(uintptr_t)records, index, record)
        if (strcmp(json_string_value(json_object_get(record, "name")), name) == 0)
            json_array_append(found, record);
    return found;
}

static int count_with(const json_t *records, const char *key, const char *value)
{
    int found = 0;
    size_t index;
    const json_t *record;
    json_array_foreach (records, index, record) {
        const char *text = json_string_value(json_object_get(json_object_get(record, "case"), key));
        found += text && strcmp(text, value) == 0;
    }
    return found;
}

// One device is compared with copies by the driver's method that move as many bytes together.
static void expect_baseline_in_the_same_directions(const json_t *record)
{
    const json_t *baseline = json_object_get(record, "yardstick");
    double items = json_number_value(json_object_get(record, "items"));
    if (strcmp(json_string_value(json_object_get(baseline, "name")), "CUDA's bandwidth sample") == 0)
        cr_expect_float_eq(json_number_value(json_object_get(baseline, "items")), items, 1e-6 * items);
}

// Of one device: five sizes by the engines, four by kernels. A pair: both devices by the engines, one by kernels.
static void expect_latencies(const json_t *all_of_one, const json_t *all_of_two)
{
    json_t *one = named(all_of_one, "pcie_latency"), *two = named(all_of_two, "pcie_latency");
    cr_expect_eq(json_array_size(one), 2u * (5 + 4));
    cr_expect_eq(json_array_size(two), 2u * 2 * (5 + 4) + 2u * 3);
    cr_expect_eq(count_with(one, "direction", "h2d"), 9);
    cr_expect_eq(count_with(one, "memory", "mapped"), 2 * 4);
    cr_expect_eq(count_with(two, "direction", "write"), 3);
    cr_expect_eq(count_with(two, "memory", "peer mapped"), 2);
    const json_t *first = json_array_get(one, 0);
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(first, "case"), "block_bytes")), 8);
    cr_expect_str_eq(json_string_value(json_object_get(first, "unit")), "us");
    json_decref(one);
    json_decref(two);
}

// Of each device, pinned copies of the first size, each way and both; of the pair, those by the copy engines.
static void expect_links(const json_t *all_of_two)
{
    json_t *links = named(all_of_two, "pcie_link");
    cr_expect_eq(json_array_size(links), 2u * 3 + 4);
    cr_expect_eq(count_with(links, "memory", "pinned"), 2 * 3);
    cr_expect_eq(count_with(links, "memory", "peer"), 4);
    cr_expect_eq(count_with(links, "direction", "write"), 2);
    cr_expect_eq(count_with(links, "direction", "both"), 2 + 1);
    json_decref(links);
}

// Of the ring of two devices.
static void expect_matrix(const json_t *ring)
{
    const json_t *matrix = json_object_get(json_object_get(ring, "detail"), "GB_per_s_from");
    cr_expect_eq(json_object_size(matrix), 2);
    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++) {
            static const char *const names[] = {"0", "1"};
            const json_t *rate = json_object_get(json_object_get(matrix, names[from]), names[to]);
            cr_expect(from == to ? !rate : fabs(json_number_value(rate) - 8) < 1e-6, "%d to %d", from, to);
        }
}

Test(pcie, every_device_direction_and_memory_has_its_case_and_nvme_beside)
{
    json_t *all_of_one = cases_of(1), *all_of_two = cases_of(2);
    json_t *one = named(all_of_one, "pcie"), *two = named(all_of_two, "pcie");
    // In three directions: pinned in two sizes, pageable and by a kernel in one; and during reads from NVMe. Of a pair:
    // one way, the other, read, both, and three by kernels; and all in a ring.
    cr_expect_eq(json_array_size(one), 3u * 4 + 3);
    cr_expect_eq(json_array_size(two), 2u * 12 + 3 + 3 + 7 + 1);
    cr_expect_eq(count_with(two, "memory", "mapped"), 2 * 3);
    cr_expect_eq(count_with(two, "memory", "peer"), 4 + 1);
    cr_expect_eq(count_with(two, "memory", "peer mapped"), 3);
    cr_expect_eq(count_with(two, "direction", "write"), 2 + 1);
    cr_expect_eq(count_with(one, "memory", "pageable"), 3);
    cr_expect_eq(count_with(one, "beside", "nvme reads"), 3);
    cr_expect_eq(count_with(two, "direction", "both"), 2 * 4 + 1 + 1 + 3);
    cr_expect_eq(count_with(two, "device", "simulated"), (int)json_array_size(two));
    expect_latencies(all_of_one, all_of_two);
    expect_links(all_of_two);
    expect_matrix(json_array_get(two, json_array_size(two) - 4));
    size_t index;
    const json_t *record;
    json_array_foreach (two, index, record) {
        cr_expect(json_is_true(json_object_get(record, "verified")));
        // Both ways at the same time are compared with one.
        const char *theirs = json_string_value(json_object_get(json_object_get(record, "yardstick"), "name"));
        const char *way = json_string_value(json_object_get(json_object_get(record, "case"), "direction"));
        double expected = strcmp(theirs, "writes") == 0 && strcmp(way, "both") == 0 ? 2 : 1;
        cr_expect_float_eq(json_number_value(json_object_get(record, "ratio")), expected, 1e-6, "case %zu", index);
        double gb_per_s = json_number_value(json_object_get(record, "median"));
        cr_expect(gb_per_s > 7.9 && gb_per_s < 32.1, "%g", gb_per_s);
        expect_baseline_in_the_same_directions(record);
    }
    json_decref(one);
    json_decref(two);
    json_decref(all_of_one);
    json_decref(all_of_two);
}

Test(pcie, devices_that_the_host_is_between_are_not_read_by_kernels)
{
    host.indirect = true;
    json_t *all = cases_of(3), *records = named(all, "pcie");
    cr_expect_eq(count_with(records, "memory", "peer"), 3 * 4 + 1);
    cr_expect_eq(count_with(all, "memory", "peer mapped"), 0);
    json_decref(records);
    json_decref(all);
}

static int run_trial(const void *context)
{
    return pcie_trial_run(context, NULL);
}

Test(pcie, a_rate_is_a_share_of_what_the_links_carry_if_they_are_known)
{
    const struct pcie_link link = link_of(3);
    const struct bench_options options = {.repeat = 3, .warmup = 1, .json = true};
    for (int peer = 0; peer < 2; peer++)
        for (int both = 0; both < 2; both++)
            for (int unknown = 0; unknown < 2; unknown++) {
                host.unknown = unknown;
                const struct pcie_setting s = {
                    &link, 1, 1, both ? PCIE_BOTH : PCIE_D2H, peer ? PCIE_PEER : PCIE_PINNED, 1, 4096, 1024};
                const struct pcie_trial trial = {&options, s, "nothing", NULL, "itself", &s, 1, .of_link = true};
                json_t *records = records_of(run_trial, &trial);
                const json_t *record = json_array_get(records, 1), *ratio = json_object_get(record, "ratio");
                const char *bound = json_string_value(json_object_get(json_object_get(record, "yardstick"), "name"));
                cr_expect_str_eq(json_string_value(json_object_get(record, "name")), "pcie_link");
                cr_expect(unknown ? json_is_null(ratio) : fabs(json_number_value(ratio) - (peer ? 0.25 : 0.5)) < 1e-6);
                cr_expect(unknown ? !bound : strcmp(bound, peer ? "NVLink x2" : "PCIe 1 x64") == 0);
                json_decref(records);
            }
}

Test(pcie, lanes_carry_what_their_generation_does)
{
    char name[PCIE_NAME_BYTES];
    cr_expect_float_eq(pcie_lanes_gb_per_s(5, 16, name), 63.0153846, 1e-6);
    cr_expect_str_eq(name, "PCIe 5 x16");
    cr_expect_float_eq(pcie_lanes_gb_per_s(2, 1, name), 0.5, 1e-9);
    cr_expect_float_eq(pcie_lanes_gb_per_s(6, 8, name), 60.5, 1e-9);
    const double none[][2] = {{NAN, 16}, {5, NAN}, {0, 16}, {7, 16}, {5, 0}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cr_expect_eq(pcie_lanes_gb_per_s(none[i][0], none[i][1], name), 0);
        cr_expect_str_eq(name, "");
    }
}

Test(pcie, each_small_copy_is_waited_for_and_one_wrong_byte_is_found)
{
    enum { BYTES = 64, SAMPLES = 3, TRIPS = 101 };
    const struct pcie_link link = link_of(2);
    const struct bench_options options = {.repeat = SAMPLES - 1, .warmup = 1, .json = true};
    for (int kind = PCIE_PINNED; kind <= PCIE_PEER_MAPPED; kind++) {
        struct pcie_setting ours = {&link, 1, 1, PCIE_H2D, (enum pcie_memory)kind, 1, BYTES, BYTES}, theirs = ours;
        theirs.memory = PCIE_DRIVERS;
        bool is_peer = pcie_memory_is_peer(ours.memory), mapped = kind == PCIE_MAPPED || kind == PCIE_PEER_MAPPED;
        host.copies = host.by_kernel = host.waits = host.spoilt = host.spoilt_by_kernel = 0;
        struct printed printed = printed_begin();
        cr_expect_eq(pcie_latency_against(&options, &ours, "them", &theirs), ERR_NONE, "%s", err_message());
        free(printed_end(printed));
        cr_expect_eq(host.by_kernel, mapped ? SAMPLES * 2 * TRIPS : 0);
        cr_expect_eq(host.copies, SAMPLES * 2 * TRIPS * (1 + !mapped + is_peer));
        cr_expect_eq(host.waits, host.copies + host.by_kernel);
        atomic_int *spoilt = mapped ? &host.spoilt_by_kernel : &host.spoilt;
        *spoilt = (mapped ? host.by_kernel : host.copies) + 2 * TRIPS;
        cr_expect_eq(pcie_latency_against(&options, &ours, "them", &theirs), ERR_CHECK);
        cr_expect(strstr(err_message(), " of 64 copied to device 1 and back is wrong"), "%s", err_message());
    }
}
