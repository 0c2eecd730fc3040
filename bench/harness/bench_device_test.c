// SPDX-License-Identifier: Apache-2.0
// Tests of a benchmark's device: it is found, or its absence is reported, and memory lies on it.
#include "bench/harness/bench_device.h"

#include "ref/arithmetic/shadow_test.h"

#include <criterion/criterion.h>

#include <string.h>

Test(bench_device, a_device_is_found_by_name_or_reported_absent)
{
    struct bench_device device;
    bool absent;
    cr_expect_eq(bench_device_find(NULL, 2, false, &device, &absent), ERR_NONE);
    cr_expect(!absent && !device.accelerator);
    cr_expect_str_eq(bench_device_name(&device), "cpu");
    cr_expect_eq(bench_device_find("cpu", 2, true, &device, &absent), ERR_NONE);
    cr_expect(!absent && !device.accelerator);
    cr_expect_eq(bench_device_find("gpu", 2, false, &device, &absent), ERR_USAGE);
    cr_expect_str_eq(err_message(), "--device gpu: expected cpu or cuda");
    cr_expect_eq(bench_device_find("cuda", 2, false, &device, &absent), ERR_NONE);
    if (absent) {
        cr_expect_null(device.accelerator);
        cr_expect(strstr(err_message(), "--device cuda: "), "%s", err_message());
    } else {
        cr_expect_str_eq(bench_device_name(&device), "cuda");
        cr_expect(device.count == 1 || device.count == 2, "%d", device.count);
    }
}

Test(bench_device, memory_belongs_to_the_accelerator_and_is_released)
{
    const struct bench_device device = {&shadow_accelerator, 2};
    void *there, *here;
    const char text[] = "seven\0s";
    char back[sizeof text];
    cr_assert_eq(bench_device_enter(&device, 3), ERR_NONE);
    cr_expect_eq(shadow_device, 1);
    cr_assert_eq(bench_device_alloc(&device, 4099, &there), ERR_NONE);
    cr_expect_eq(accelerator_of((char *)there + 4098), &shadow_accelerator);
    cr_expect_eq(bytes_copy(there, text, sizeof text), ERR_NONE);
    cr_expect_eq(bytes_copy(back, there, sizeof text), ERR_NONE);
    cr_expect_arr_eq(back, text, sizeof text);
    cr_assert_eq(bench_device_alloc_host(&device, 8191, &here), ERR_NONE);
    cr_expect_null(accelerator_of(here));
    cr_expect_eq(shadow.locked_bytes, 8191);
    memset(here, 1, 8191);
    bench_device_free_host(&device, here, 8191);
    cr_expect_eq(shadow.unlock_count, 1);
    bench_device_free(&device, there, 4099);
    cr_expect_null(accelerator_of(there));
    cr_expect_eq(shadow.block_count, 0);
    bench_device_free(&device, NULL, 1);
    bench_device_free_host(&device, NULL, 1);
}

Test(bench_device, full_words_are_filled_on_device_and_host)
{
    const struct bench_device devices[] = {{&shadow_accelerator, 1}, {0}};
    const unsigned char expected[] = {0x78, 0x56, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 9, 9, 9};
    for (int d = 0; d < 2; d++) {
        void *memory;
        unsigned char back[sizeof expected];
        memset(back, 9, sizeof back);
        cr_assert_eq(bench_device_enter(&devices[d], 0), ERR_NONE);
        cr_assert_eq(bench_device_alloc(&devices[d], sizeof back, &memory), ERR_NONE);
        cr_expect_eq(bytes_copy(memory, back, sizeof back), ERR_NONE);
        cr_expect_eq(bench_device_fill(&devices[d], memory, 0x12345678, sizeof back), ERR_NONE);
        cr_expect_eq(bench_device_fill(&devices[d], (char *)memory + 8, 1, 3), ERR_NONE);
        cr_expect_eq(bytes_copy(back, memory, sizeof back), ERR_NONE);
        cr_expect_arr_eq(back, expected, sizeof back);
        bench_device_free(&devices[d], memory, sizeof back);
    }
}

Test(bench_device, a_case_names_the_device_unless_it_is_the_cpu)
{
    json_t *of_case = json_object();
    bench_device_describe(&(struct bench_device){0}, of_case);
    cr_expect_eq(json_object_size(of_case), 0);
    bench_device_describe(&(struct bench_device){&shadow_accelerator, 2}, of_case);
    cr_expect_str_eq(json_string_value(json_object_get(of_case, "device")), "shadow");
    cr_expect_eq(json_integer_value(json_object_get(of_case, "devices")), 2);
    json_decref(of_case);
}

Test(bench_device, without_an_accelerator_memory_is_host_memory)
{
    const struct bench_device device = {0};
    void *there, *here;
    cr_assert_eq(bench_device_enter(&device, 5), ERR_NONE);
    cr_assert_eq(bench_device_alloc(&device, 10007, &there), ERR_NONE);
    cr_assert_eq(bench_device_alloc_host(&device, 10007, &here), ERR_NONE);
    memset(there, 3, 10007);
    memset(here, 4, 10007);
    cr_expect_eq(bytes_copy(here, there, 10007), ERR_NONE);
    cr_expect_eq(((char *)here)[10006], 3);
    bench_device_free(&device, there, 10007);
    bench_device_free_host(&device, here, 10007);
}
