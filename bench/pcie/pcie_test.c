// SPDX-License-Identifier: Apache-2.0
// Tests of `bench pcie` over simulated devices: every case has its record, and a wrong byte is an error.
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "ref/tier/storage_test.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Simulated devices use host memory; copy number `spoilt` changes a byte.
static struct {
    atomic_int copies, spoilt;
    atomic_int kinds[PCIE_PEER_MAPPED + 1];
    atomic_int entered[8], by_kernel, spoilt_by_kernel;
    bool indirect;
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

static struct pcie_link link_of(int device_count)
{
    return (struct pcie_link){device_count, enter, device_open,    free,  host_open, host_close,
                              reach,        copy,  copy_by_kernel, begin, end,       "simulated"};
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

static json_t *cases_of(int device_count)
{
    const struct pcie_link link = link_of(device_count);
    static const char *const paths[] = {storage_folder};
    struct bench_options options = {.sizes = {1 << 20, 64 << 10},
                                    .size_count = 2,
                                    .repeat = 2,
                                    .warmup = 1,
                                    .json = true,
                                    .storage = {.paths = paths, .path_count = 1}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes), *before = stdout;
    stdout = out;
    int code = pcie_cases_run(&link, &options, 2 << 20);
    stdout = before;
    fclose(out);
    cr_assert_eq(code, ERR_NONE, "%s", err_message());
    json_t *records = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        json_array_append_new(records, json_loads(line, 0, NULL));
    free(text);
    return records;
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

Test(pcie, every_device_direction_and_memory_has_its_case_and_nvme_beside)
{
    json_t *one = cases_of(1), *two = cases_of(2);
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
}

Test(pcie, devices_that_the_host_is_between_are_not_read_by_kernels)
{
    host.indirect = true;
    json_t *records = cases_of(3);
    cr_expect_eq(count_with(records, "memory", "peer"), 3 * 4 + 1);
    cr_expect_eq(count_with(records, "memory", "peer mapped"), 0);
    json_decref(records);
}
