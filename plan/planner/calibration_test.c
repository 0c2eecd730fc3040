// SPDX-License-Identifier: Apache-2.0
// A calibration is a machine that plans accept, with figures from the records that its sources name.
#include "plan/planner/calibration.h"

#include "base/err.h"
#include "plan/planner/plan_machine.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *const lines[] = {
    "{\"record\":\"run\"}",
    "{\"record\":\"bench\",\"name\":\"step\",\"case\":{\"preset\":\"zero0\",\"world\":2},\"median\":9,\"unit\":\"ms\","
    "\"detail\":{\"efficiency\":{\"peak_flops_per_s\":7e9}}}",
    "{\"record\":\"bench\",\"name\":\"memory\",\"case\":{\"operation\":\"adam_mix\",\"threads\":2},\"median\":10,"
    "\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"memory\",\"case\":{\"operation\":\"adam_mix\",\"threads\":1},\"median\":6,"
    "\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"memory\",\"case\":{\"operation\":\"adam_mix\",\"threads\":2,\"pages\":\"4 KiB\"},"
    "\"median\":3,\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"memory\",\"case\":{\"operation\":\"copy\",\"threads\":2},\"median\":8,"
    "\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"comm\",\"case\":{\"operation\":\"all-gather\",\"world\":3,\"buffer_bytes\":3000,"
    "\"shares\":\"equal\",\"in_place\":false},\"median\":1000,\"unit\":\"ns\"}",
    "{\"record\":\"bench\",\"name\":\"comm\",\"case\":{\"operation\":\"reduce-scatter\",\"world\":3,"
    "\"buffer_bytes\":3000,\"shares\":\"equal\",\"in_place\":false},\"median\":2000,\"unit\":\"ns\"}",
    "{\"record\":\"bench\",\"name\":\"comm\",\"case\":{\"operation\":\"all-gather\",\"world\":3,\"buffer_bytes\":8,"
    "\"shares\":\"equal\",\"in_place\":false},\"median\":600,\"unit\":\"ns\"}",
    "{\"record\":\"bench\",\"name\":\"nvme\",\"case\":{\"direction\":\"read\",\"block_bytes\":1048576},\"median\":3,"
    "\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"nvme\",\"case\":{\"direction\":\"write\",\"block_bytes\":1048576},\"median\":2,"
    "\"unit\":\"GB/s\"}",
    "{\"record\":\"bench\",\"name\":\"nvme\",\"case\":{\"direction\":\"read\",\"block_bytes\":4096},\"median\":50,"
    "\"unit\":\"us\"}",
    "{\"record\":\"fit\",\"world\":4,\"device_available_bytes\":1000,\"host_available_bytes\":2000,"
    "\"nvme_available_bytes\":3000}",
};
enum { LINE_COUNT = sizeof lines / sizeof lines[0] };

// Makes a machine from all lines but one; LINE_COUNT: from all.
static int make(size_t without, struct plan_machine *out, const char **missing)
{
    json_t *records[LINE_COUNT], *machine;
    size_t count = 0;
    char path[] = "/tmp/zg-calibration-XXXXXX.json";
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (i != without)
            cr_assert_not_null(records[count++] = json_loads(lines[i], 0, NULL), "%s", lines[i]);
    cr_assert_eq(calibration_make(records, count, &machine, missing), ERR_NONE);
    for (size_t i = 0; i < count; i++)
        json_decref(records[i]);
    if (!machine)
        return ERR_CHECK;
    close(mkstemps(path, 5));
    cr_assert_eq(json_dump_file(machine, path, 0), 0);
    json_decref(machine);
    int rc = plan_machine_find(path, out);
    unlink(path);
    return rc;
}

Test(calibration, every_figure_comes_from_the_record_that_its_source_names)
{
    static struct plan_machine machine;
    const char *missing;
    cr_assert_eq(make(LINE_COUNT, &machine, &missing), ERR_NONE, "%s", err_message());
    static const struct {
        enum machine_figure figure;
        double value;
        const char *source;
    } expected[] = {
        {MACHINE_DEVICE_FP32_FLOPS, 7e9, "line 2 "},
        {MACHINE_DEVICE_BF16_FLOPS, 7e9, "line 2 "},
        {MACHINE_NODE_CPU_RATE, 10e9, "line 3 "},
        {MACHINE_DEVICE_MEMORY_RATE, 5e9, "line 3 "},
        {MACHINE_H2D_RATE, 4e9, "line 6 "},
        {MACHINE_NODE_HOST_LINK_RATE, 4e9, "line 6 "},
        {MACHINE_INTRA_NODE_RATE, 1e9, "line 8 "},
        {MACHINE_INTRA_NODE_LATENCY_S, 300e-9, "line 9 "},
        {MACHINE_NODE_NVME_READ_RATE, 3e9, "line 10 "},
        {MACHINE_NODE_NVME_WRITE_RATE, 2e9, "line 11 "},
        {MACHINE_NVME_LATENCY_S, 50e-6, "line 12 "},
        {MACHINE_DEVICE_MEMORY_BYTES, 2000, "available"},
        {MACHINE_NODE_HOST_MEMORY_BYTES, 8000, "available"},
        {MACHINE_NODE_NVME_BYTES, 12000, "available"},
    };
    cr_expect_eq(machine.devices_per_node, 2);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *name = plan_machine_figure_name(expected[i].figure);
        double value = machine.figures[expected[i].figure].value;
        cr_expect(fabs(value / expected[i].value - 1) < 1e-9, "%s: %g", name, value);
        cr_expect(strstr(machine.figures[expected[i].figure].source, expected[i].source), "%s: %s", name,
                  machine.figures[expected[i].figure].source);
        cr_expect_not(machine.figures[expected[i].figure].assumed, "%s", name);
    }
}

Test(calibration, a_missing_required_figure_makes_no_machine_and_an_optional_one_is_left_out)
{
    static struct plan_machine machine;
    const char *missing;
    cr_expect_eq(make(1, &machine, &missing), ERR_CHECK);
    cr_expect_str_eq(missing, "a training step");
    cr_expect_eq(make(5, &machine, &missing), ERR_CHECK);
    cr_expect_str_eq(missing, "copies in memory");
    cr_expect_eq(make(LINE_COUNT - 1, &machine, &missing), ERR_CHECK);
    cr_expect_eq(make(9, &machine, &missing), ERR_NONE, "%s", err_message());
    cr_expect_eq(machine.figures[MACHINE_NODE_NVME_READ_RATE].value, 0);
}
