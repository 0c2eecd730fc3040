// SPDX-License-Identifier: Apache-2.0
// Tests of `bench step` on the shadow accelerator: steps, products and copies run there, errors there are found, and
// nothing stays allocated.
#include "bench/table/benchmarks.h"
#include "bench/step/lane_work.h"
#include "bench/step/lane_load.h"
#include "bench/harness/printed_test.h"
#include "results/record/record_check.h"
#include "ref/arithmetic/shadow_test.h"
#include "bench/step/step_bench.h"
#include "ref/model/names/model_find.h"
#include "ref/tier/storage_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <stdatomic.h>
#include <string.h>

// An accelerator that counts products and copies; number `spoilt` has a wrong element.
static struct {
    atomic_int products, spoilt_product, copies, spoilt_copy;
    atomic_int devices;  // one bit per device that was entered
    atomic_int pending;  // products not waited for
    atomic_int early;    // copies while some were pending
} host;
static _Thread_local int begun;  // this thread's pending products

static int counting_enter(int device)
{
    host.devices |= 1 << device;
    return shadow_enter(device);
}

// Leaves the thread without a current device.
static int entering_fails(int device)
{
    (void)device;
    shadow_device = -1;
    return ERR_NONE;
}

static void counting_matmul(const struct matmul_product *product)
{
    shadow_matmul(product);
    host.pending++;
    begun++;
    if (++host.products == host.spoilt_product)
        shadow_spoil(product);
}

static int counting_copy(void *to, const void *from, size_t bytes)
{
    TRY(shadow_copy(to, from, bytes));
    char *there = shadow_find(to);
    host.early += host.pending > 0;
    if (++host.copies == host.spoilt_copy)
        (there ? there : (char *)to)[bytes - 1] ^= 4;
    return ERR_NONE;
}

static int counting_wait(void)
{
    host.pending -= begun;
    begun = 0;
    return shadow_wait();
}

static struct accelerator accelerator;
static struct bench_device device = {&accelerator, 2};  // tests change the number
static const struct bench_storage no_storage;
static const char text_path[] = ZG_SOURCE_DIR "/README.md";
static struct text *text;

static void begin(void)
{
    accelerator = shadow_accelerator;
    accelerator.enter = counting_enter;
    accelerator.matmul = counting_matmul;
    accelerator.copy = counting_copy;
    accelerator.wait = counting_wait;
    cr_assert_eq(text_open(text_path, &text), ERR_NONE, "%s", err_message());
}

static void end(void)
{
    text_close(text);
    cr_expect_eq(shadow.block_count, 0, "%d allocations are left", shadow.block_count);
    cr_expect_eq(shadow.lock_count, shadow.unlock_count);
}

TestSuite(step_device, .init = begin, .fini = end);

static const struct model *nano(void)
{
    const struct model *model;
    cr_assert_eq(model_find("gpt-nano", &model), ERR_NONE);
    return model;
}

static int bench(int argc, const char **argv)
{
    return bench_step_on(&device, argc, argv);
}

Test(step_device, every_record_names_the_device)
{
    static const char *const first[] = {"step", "--nvme-path", storage_folder, "--text", text_path, NULL};
    static const char words[] = "--model gpt-nano --quick --repeat 1 --json --preset zero2_offload,zero3";
    char *printed;
    cr_assert_eq(printed_run(bench, first, words, &printed), 0);
    int count = 0, lanes = 0;
    for (const char *line = printed; *line; line = strchr(line, '\n') + 1) {
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *of_case = json_object_get(record, "case");
        cr_assert_not_null(record, "%s", line);
        cr_expect_eq(record_check("test", record), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(json_string_value(json_object_get(of_case, "device")), "shadow");
        cr_expect_eq(json_integer_value(json_object_get(of_case, "devices")), 2);
        cr_expect(json_is_true(json_object_get(record, "verified")));
        cr_expect_gt(json_number_value(json_object_get(record, "ratio")), 0);
        lanes += json_object_get(of_case, "lane") != NULL;
        count++;
        json_decref(record);
    }
    // Three cases with a step and its flops each; lanes: collective, h2d and d2h of one, collective of the other.
    cr_expect_eq(count, 3 * 2 + 4);
    cr_expect_eq(lanes, 4);
    cr_expect_eq(host.devices, 3, "both devices are used");
    free(printed);
}

static struct step_setting setting_on(const struct bench_device *used)
{
    return (struct step_setting){.model = nano(),
                                 .text = text,
                                 .storage = &no_storage,
                                 .device = *used,
                                 .sequences = 1,
                                 .steps = 3,
                                 .bucket = 1000};
}

// Every run has the same number of products; the wrong one is in the middle.
Test(step_device, one_wrong_product_in_a_step_discards_the_measurement)
{
    device.count = 1;
    const struct step_setting setting = setting_on(&device);
    struct step_case c = {.what = "ZeRO-1", .preset = "zero1", .world = STEP_WORLD, .accumulation = 1};
    cr_assert_eq(step_case_verify(&setting, &c), ERR_NONE, "%s", err_message());
    host.spoilt_product = host.products / 2;
    host.products = 0;
    cr_expect_eq(step_case_verify(&setting, &c), ERR_CHECK);
    cr_expect(strstr(err_message(), "ZeRO-1 differs from unsharded Adam"), "%s", err_message());
    host.spoilt_product = 0;
    cr_assert_eq(step_case_verify(&setting, &c), ERR_NONE, "%s", err_message());
    host.products = 0;
    cr_assert_eq(step_case_measure(&setting, &c, true), ERR_NONE, "%s", err_message());
    host.spoilt_product = host.products / 2;
    host.products = 0;
    cr_expect_eq(step_case_measure(&setting, &c, true), ERR_CHECK);
    cr_expect(strstr(err_message(), "the timed run ended with digest "), "%s", err_message());
    cr_expect_eq(c.step_ms.count, 1);
    json_decref(c.timeline);
}

Test(step_device, the_dtype_of_a_step_is_the_chosen_one)
{
    const struct bench_device processor = {0};
    struct step_setting setting = setting_on(&processor);
    static const char *const dtypes[] = {NULL, "bf16", "fp32"};
    struct step_case cases[3];
    for (int i = 0; i < 3; i++) {
        setting.dtype = dtypes[i];
        cases[i] = (struct step_case){.what = "one process", .preset = "zero0", .world = 1, .accumulation = 1};
        cr_assert_eq(step_case_verify(&setting, &cases[i]), ERR_NONE, "%s", err_message());
    }
    cr_expect_str_eq(cases[0].digest, cases[1].digest);
    cr_expect_str_neq(cases[0].digest, cases[2].digest);
}

Test(step_device, ranks_that_train_alone_have_a_device_each)
{
    const struct step_setting setting = setting_on(&device);
    struct step_case c = {.what = "alone", .preset = "zero0", .world = 1, .ranks_alone = STEP_WORLD, .accumulation = 1};
    cr_assert_eq(step_case_verify(&setting, &c), ERR_NONE, "%s", err_message());
    cr_expect_eq(host.devices, 1, "one rank uses the first device");
    cr_assert_eq(step_case_measure(&setting, &c, true), ERR_NONE, "%s", err_message());
    cr_expect_eq(host.devices, 3);
    json_decref(c.timeline);
}

Test(step_device, a_wrong_product_discards_the_peak)
{
    device.count = 3;
    const struct step_peak_setting setting = {.device = &device, .sequences = 2, .threads = 3, .side = 101};
    struct step_peak *peak;
    double gflops;
    cr_assert_eq(step_peak_open(nano(), &setting, &peak), ERR_NONE, "%s", err_message());
    cr_expect_eq(host.devices, 7);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(step_peak_of_square(peak, &gflops), ERR_NONE, "%s", err_message());
        cr_expect_gt(gflops, 0);
    }
    cr_expect_gt(host.copies, 0);
    cr_expect_eq(host.early, 0, "results are read before the products have ended");
    // In 0 s each thread multiplies once, so that no later product overwrites the wrong one.
    host.spoilt_product = host.products + 2;
    cr_expect_eq(step_peak_of_square(peak, &gflops), ERR_CHECK);
    cr_expect_str_eq(err_message(), "matrix products have 1 wrong elements");
    cr_assert_eq(step_peak_of_model(peak, &gflops), ERR_NONE, "%s", err_message());
    shadow_code = ERR_IO;
    cr_expect_eq(step_peak_of_model(peak, &gflops), ERR_IO);
    cr_expect_str_eq(err_message(), "matrix products of rank 0: the shadow has failed");
    step_peak_close(peak);
}

Test(step_device, too_little_device_memory_is_an_error_of_its_rank)
{
    const double bytes[LANE_COUNT] = {[LANE_D2H] = 5};
    const struct step_peak_setting setting = {.device = &device, .sequences = 1, .threads = 2, .side = 3};
    struct step_peak *peak = NULL;
    struct step_links links;
    accelerator.enter = entering_fails;
    cr_expect_eq(step_peak_open(nano(), &setting, &peak), ERR_INTERNAL);
    cr_expect(strstr(err_message(), "matrix products of rank 0: "), "%s", err_message());
    cr_expect_null(peak);
    cr_expect_eq(step_links_open(bytes, 2, 0.001, &no_storage, &device, &links), ERR_INTERNAL);
    step_links_close(&links);
}

// Copies use the rank's own device and page-locked host memory, at odd sizes too.
Test(step_device, copies_go_between_the_device_and_locked_memory)
{
    const double bytes[LANE_COUNT] = {[LANE_H2D] = 7919, [LANE_D2H] = 5};
    struct step_links links;
    cr_assert_eq(step_links_open(bytes, 2, 0.001, &no_storage, &device, &links), ERR_NONE, "%s", err_message());
    cr_expect_eq(shadow.block_count, 4);
    cr_expect_eq(shadow.locked_bytes, 2 * (7919 + 5));
    for (int round = 0; round < 3; round++)
        cr_assert_eq(step_links_measure(&links, round > 0), ERR_NONE, "%s", err_message());
    cr_expect_eq(links.gb_per_s[LANE_H2D].count, 2);
    cr_expect_gt(links.gb_per_s[LANE_D2H].values[1], 0);
    cr_expect_eq(host.devices, 3);
    step_links_close(&links);
}

Test(step_device, a_wrongly_copied_byte_is_found_in_either_direction)
{
    device.count = 1;
    for (int lane = LANE_H2D; lane <= LANE_D2H; lane++) {
        const struct lane_load_setting setting = {.device = &device, .copy_bytes = 65537};
        struct lane_done done;
        struct lane_load *load;
        cr_assert_eq(lane_load_open((enum lane)lane, &setting, &load), ERR_NONE, "%s", err_message());
        cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0, &done), ERR_NONE);
        cr_assert_eq(done.items, 65537);
        cr_assert_eq(lane_load_check(load), ERR_NONE, "%s", err_message());
        host.spoilt_copy = host.copies + 1;
        cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0, &done), ERR_NONE);
        cr_expect_eq(lane_load_check(load), ERR_CHECK, "lane %d", lane);
        cr_expect_str_eq(err_message(), "copied data is wrong");
        cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0, &done), ERR_NONE);
        cr_expect_eq(lane_load_check(load), ERR_NONE, "%s", err_message());
        lane_load_close(load);
    }
}

Test(step_device, pieces_of_a_large_copy_follow_one_another)
{
    enum { PIECE_BYTES = 8 << 20 };
    device.count = 1;
    for (int lane = LANE_H2D; lane <= LANE_D2H; lane++) {
        struct lane_copy copy = {.device = device, .to_device = lane == LANE_H2D};
        cr_assert_eq(lane_copy_open(2 * PIECE_BYTES + 5, &copy), ERR_NONE, "%s", err_message());
        cr_expect_eq(copy.buffer_bytes, 2 * PIECE_BYTES, "full pieces");
        for (int pieces = 1; pieces <= 3; pieces++) {
            for (int i = 0; i < pieces; i++)
                cr_assert_eq(lane_copy_run(&copy), ERR_NONE);
            cr_expect_eq(lane_copy_check(&copy), ERR_NONE, "%d pieces: %s", pieces, err_message());
        }
        host.spoilt_copy = host.copies + 2;
        cr_assert_eq(lane_copy_run(&copy), ERR_NONE);
        cr_assert_eq(lane_copy_run(&copy), ERR_NONE);
        cr_expect_eq(lane_copy_check(&copy), ERR_CHECK);
        lane_copy_close(&copy);
    }
}

// Makes the last element of one fold wrong.
static atomic_int folds;
static int spoilt_fold;

static void wrong_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                       size_t count)
{
    shadow_fold(in_dtype, in, world, out_dtype, out, count);
    if (++folds == spoilt_fold)
        ((float *)at(out))[count - 1] += 1;
}

Test(step_device, reduce_scatters_run_on_the_device)
{
    struct isa_kernels kernels = shadow_kernels;
    kernels.fold = wrong_fold;
    accelerator.kernels = &kernels;
    const struct lane_load_setting setting = {.device = &device};
    struct lane_done done;
    struct lane_load *load;
    cr_assert_eq(lane_load_open(LANE_COLLECTIVE, &setting, &load), ERR_NONE, "%s", err_message());
    int folds_of_check = 0;
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0, &done), ERR_NONE, "%s", err_message());
        folds_of_check = -folds;
        cr_assert_eq(lane_load_check(load), ERR_NONE, "%s", err_message());
        folds_of_check += folds;
    }
    cr_expect_gt(folds_of_check, 0);
    cr_expect_eq(host.devices, 3);
    // The last fold of the run makes the result that is verified.
    spoilt_fold = folds + folds_of_check;
    cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0, &done), ERR_NONE, "%s", err_message());
    cr_assert_eq(folds, spoilt_fold, "a run has as many folds as a check");
    cr_expect_eq(lane_load_check(load), ERR_CHECK);
    cr_expect_str_eq(err_message(), "a reduce-scatter left 1 wrong elements");
    lane_load_close(load);
}

Test(step_device, an_absent_device_is_a_skip)
{
    static const char *const first[] = {"step", NULL};
    static const char *const bad[] = {"--device gpu", NULL};
    struct bench_device found;
    bool absent;
    char *printed;
    cr_assert_eq(bench_device_find("cuda", STEP_WORLD, false, &found, &absent), ERR_NONE);
    if (absent) {
        cr_expect_eq(printed_run(bench_step.run, first, "--device cuda", &printed), 77);
        cr_expect_str_empty(printed);
        free(printed);
    }
    printed_expect_refused(bench_step.run, first, bad);
}
