// SPDX-License-Identifier: Apache-2.0
// Machines: every file is complete, rates follow from its figures, and errors are named.
#include "plan/planner/plan_machine.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct plan_machine machine;

static void find(const char *name)
{
    cr_assert_eq(plan_machine_find(name, &machine), ERR_NONE, "%s", err_message());
}

Test(plan_machine, every_figure_of_every_machine_has_a_source)
{
    int count = 0;
    for (; plan_machine_name((size_t)count); count++) {
        find(plan_machine_name((size_t)count));
        for (int i = 0; i < MACHINE_FIGURE_COUNT; i++)
            cr_expect_eq(machine.figures[i].value > 0, strlen(machine.figures[i].source) > 10, "%s: %s", machine.name,
                         plan_machine_figure_name((enum machine_figure)i));
    }
    cr_assert_geq(count, 4);
}

Test(plan_machine, the_active_devices_share_the_rates_of_a_node)
{
    struct plan_lanes one, two, sixteen, many;
    find("dgx-2");
    cr_assert_eq(plan_lanes_of(&machine, 1, DTYPE_FP16, &one), ERR_NONE);
    cr_assert_eq(plan_lanes_of(&machine, 2, DTYPE_FP16, &two), ERR_NONE);
    cr_assert_eq(plan_lanes_of(&machine, 16, DTYPE_FP16, &sixteen), ERR_NONE);
    cr_assert_eq(plan_lanes_of(&machine, 64, DTYPE_FP16, &many), ERR_NONE);
    cr_expect_eq(one.bytes_per_s[LANE_H2D], 12e9);
    cr_expect_eq(sixteen.bytes_per_s[LANE_H2D], 3e9);
    cr_expect_eq(two.bytes_per_s[LANE_NVME_READ], 12.8e9);
    cr_expect_eq(sixteen.bytes_per_s[LANE_NVME_READ], 1.6e9);
    cr_expect_eq(sixteen.bytes_per_s[LANE_CPU], 6.25e9);
    cr_expect_eq(sixteen.bytes_per_s[LANE_COLLECTIVE], 150e9);
    cr_expect_eq(many.bytes_per_s[LANE_COLLECTIVE], 100e9);
    cr_expect(fabs(sixteen.latency_s[LANE_COLLECTIVE] - 15 * 5e-6) < 1e-12);
    cr_expect(fabs(many.latency_s[LANE_COLLECTIVE] - (15 * 5e-6 + 2 * 1e-5)) < 1e-12);
    cr_expect(fabs(many.forward_flops_per_s - 70e12) < 1e6, "%g", many.forward_flops_per_s);
}

static double seconds(const struct plan_lanes *lanes, int ranks, int stride)
{
    return plan_lanes_seconds(lanes, &(struct executor_operation){.name = "all-gather",
                                                                  .lane = LANE_COLLECTIVE,
                                                                  .times = 1,
                                                                  .work_bytes = 1000000000,
                                                                  .ranks = ranks,
                                                                  .stride = stride});
}

// 64 ranks of four nodes with 16 devices: 150 GB/s and 5 us within a node, 100 GB/s and 10 us between nodes.
Test(plan_machine, a_group_has_the_links_that_its_ranks_use)
{
    struct plan_lanes lanes;
    find("dgx-2");
    cr_assert_eq(plan_lanes_of(&machine, 64, DTYPE_FP16, &lanes), ERR_NONE);
    double whole = 1e9 / 100e9 + 15 * 5e-6 + 2 * 1e-5;
    const struct {
        const char *what;
        int ranks, stride;
        double expected;
    } groups[] = {
        {"all", 64, 1, whole},
        {"all, by default", 0, 0, whole},
        {"a node", 16, 1, 1e9 / 150e9 + 15 * 5e-6},
        {"half a node", 8, 1, 1e9 / 150e9 + 7 * 5e-6},
        {"two nodes", 32, 1, 1e9 / 100e9 + 15 * 5e-6 + 1e-5},
        {"a device of each node, that sends with 15 other groups", 4, 16, 1e9 / (100e9 / 16) + 2 * 1e-5},
        {"a device of every other node", 2, 32, 1e9 / (100e9 / 16) + 1e-5},
        {"two devices of each node", 8, 8, 1e9 / (100e9 / 8) + 5e-6 + 2 * 1e-5},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        cr_expect_float_eq(seconds(&lanes, groups[i].ranks, groups[i].stride), groups[i].expected, 1e-9, "%s: %.9g",
                           groups[i].what, seconds(&lanes, groups[i].ranks, groups[i].stride));
}

// Of 4 devices' tokens on two nodes 3/4 have another rank's expert. Within a node they pass it at its rate. Of two
// experts drawn of both nodes' each token reaches the other node with 3/4, once, at a sixteenth of its 100 GB/s; of one
// expert with 1/2.
Test(plan_machine, tokens_pass_the_network_once_for_each_node)
{
    struct plan_lanes lanes;
    struct executor_operation tokens = {.name = "token all-to-all",
                                        .lane = LANE_COLLECTIVE,
                                        .times = 1,
                                        .work_bytes = 3000000000,
                                        .ranks = 4,
                                        .stride = 8};
    find("dgx-2");
    cr_assert_eq(plan_lanes_of(&machine, 64, DTYPE_FP16, &lanes), ERR_NONE);
    double latency_s = 5e-6 + 1e-5;
    lanes.experts_used = 2;
    cr_expect_float_eq(plan_lanes_seconds(&lanes, &tokens), 4 * 0.75 / 2 / (100.0 / 16) + latency_s, 1e-9);
    lanes.experts_used = 1;
    cr_expect_float_eq(plan_lanes_seconds(&lanes, &tokens), 4 * 0.5 / (100.0 / 16) + latency_s, 1e-9);
    tokens.stride = 1;
    cr_expect_float_eq(plan_lanes_seconds(&lanes, &tokens), 3 / 150.0 + 3 * 5e-6, 1e-9);
}

Test(plan_machine, the_time_of_an_operation_follows_from_lane_and_size)
{
    const struct plan_lanes lanes = {.forward_flops_per_s = 100,
                                     .backward_flops_per_s = 50,
                                     .bytes_per_s = {[LANE_COMPUTE] = 10, [LANE_COLLECTIVE] = 5, [LANE_H2D] = 2},
                                     .latency_s = {0.5, 0.25}};
    const struct executor_operation computes = {
        .name = "forward", .lane = LANE_COMPUTE, .times = 1, .flops = 400, .work_bytes = 20};
    const struct executor_operation reads = {
        .name = "forward", .lane = LANE_COMPUTE, .times = 1, .flops = 400, .work_bytes = 70};
    const struct executor_operation back = {.name = "backward", .lane = LANE_COMPUTE, .times = 1, .flops = 400};
    const struct executor_operation gathers = {
        .name = "all-gather", .lane = LANE_COLLECTIVE, .times = 4, .bytes = 999, .work_bytes = 10};
    const struct executor_operation copies = {
        .name = "copy", .lane = LANE_H2D, .times = 1, .bytes = 6, .work_bytes = 999};
    cr_expect_eq(plan_lanes_seconds(&lanes, &computes), 4.5);
    cr_expect_eq(plan_lanes_seconds(&lanes, &reads), 7.5);
    cr_expect_eq(plan_lanes_seconds(&lanes, &back), 8.5);
    cr_expect_eq(plan_lanes_seconds(&lanes, &gathers), 3);
    cr_expect_eq(plan_lanes_seconds(&lanes, &copies), 3);
}

Test(plan_machine, missing_figures_are_named)
{
    struct plan_lanes lanes;
    find("dgx-2");
    cr_expect_eq(plan_lanes_of(&machine, 16, DTYPE_BF16, &lanes), ERR_USAGE);
    cr_expect(strstr(err_message(), "device_bf16_flops_per_s"), "%s", err_message());
    find("workstation");
    cr_expect_eq(plan_lanes_of(&machine, 1, DTYPE_BF16, &lanes), ERR_NONE);
    cr_expect_eq(plan_lanes_of(&machine, 2, DTYPE_BF16, &lanes), ERR_USAGE);
    cr_expect(strstr(err_message(), "inter_node_bytes_per_s"), "%s", err_message());
    cr_expect_eq(plan_machine_find("dgx-1", &machine), ERR_USAGE);
    cr_expect(strstr(err_message(), "dgx-1") && strstr(err_message(), "dgx-h100"), "%s", err_message());
}

// Writes a machine's file with one figure's object in place of "%s" and reads it.
static int read_with(const char *figure)
{
    char path[] = "/tmp/zg-machine-XXXXXX.json";
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fprintf(file,
            "{\"schema\": 1, \"about\": \"a machine\", \"devices_per_node\": 1, \"figures\": {\n"
            "\"device_memory_bytes\": %s}}\n",
            figure);
    fclose(file);
    int rc = plan_machine_find(path, &machine);
    unlink(path);
    return rc;
}

Test(plan_machine, a_figure_without_a_source_is_refused_with_its_place)
{
    static const struct {
        const char *figure, *expected;
    } cases[] = {
        {"{\"value\": 1}", "figures.device_memory_bytes.source: is missing"},
        {"{\"value\": 1, \"source\": \"a\", \"assumption\": \"b\"}", "has an assumption next to it"},
        {"{\"value\": 0, \"source\": \"a\"}", "figures.device_memory_bytes.value: is 0, expected more than 0"},
        {"{\"value\": 1, \"source\": \"a\", \"sorce\": \"b\"}", "sorce"},
        {"{\"value\": 1, \"source\": \"a\"}", "figures.node_host_memory_bytes: missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(read_with(cases[i].figure), ERR_USAGE);
        cr_expect(strstr(err_message(), cases[i].expected), "%s: %s", cases[i].figure, err_message());
        cr_expect(strstr(err_message(), ".json:"), "%s", err_message());
    }
}
