// SPDX-License-Identifier: Apache-2.0
// Tests of the ranks of `bench comm` over a stand-in for NCCL, with shadow accelerators as GPUs: both orders of every
// collective run and are verified, and elements with different bits are counted. Only tests on GPUs run NCCL itself.
#include "ref/comm/nccl_standin_test.h"

#include "bench/comm/comm_case.h"
#include "ref/cuda/cuda_lane.h"
#include "bench/comm/native_collective.h"
#include "bench/comm/nccl_rows.h"
#include "bench/harness/printed_test.h"
#include "ref/cuda/tier_cuda.h"

// One trial. The ranks are threads here, but comm_ranks sees each as a process.
struct trial {
    struct comm_setting setting;
    bool spoils;          // rank 0 changes the last element of NCCL's own result
    uint64_t other_bits;  // found
    size_t wrong_count;
};

static struct bench_device device = {&shadow_accelerator, 1};
static const struct comm_nccl_calls *calls = &standin_calls;

static int measure(struct comm_ranks *ranks, bool spoils)
{
    static const enum task tasks[] = {TASK_COLLECTIVE, TASK_NATIVE, TASK_COLLECTIVE, TASK_NATIVE};
    for (int i = 0; i < 4; i++) {
        ranks->calls = ranks->setting.in_place ? 1 : (size_t)i + 1;
        TRY(comm_ranks_prepare(ranks, tasks[i], i < 2));
        TRY(comm_ranks_repeat(ranks));
    }
    if (!ranks->setting.in_place && nccl_graph_is_possible(ranks->setting.comm)) {
        TRY(comm_ranks_open_graph(ranks));
        TRY(comm_ranks_prepare(ranks, TASK_GRAPH, true));
        TRY(comm_ranks_repeat(ranks));
    }
    const struct comm_rank *self = &ranks->ranks[0];
    char *last = comm_rank_result(self) + (comm_rank_result_count(self) - 1) * dtype_bytes(ranks->setting.dtype);
    float value;
    if (spoils) {
        TRY(bytes_copy(&value, last, sizeof value));
        value += 1;
        TRY(bytes_copy(last, &value, sizeof value));
    }
    return comm_ranks_prepare(ranks, TASK_COLLECTIVE, true);
}

static int run(struct rank *rank, struct trial *trial)
{
    struct comm_setting setting = trial->setting;
    struct comm_ranks ranks;
    uint64_t other_bits = 0;
    size_t wrong_count = 0;
    setting.comm = rank->comm;
    TRY(comm_ranks_open(&setting, &ranks));
    int code = measure(&ranks, trial->spoils && rank->index == 0);
    if (code == ERR_NONE && !setting.in_place)
        code = comm_ranks_count_other_bits(&ranks, &other_bits);
    int closed = comm_ranks_close(&ranks, &wrong_count);
    if (rank->index == 0) {
        trial->other_bits = other_bits;
        trial->wrong_count = wrong_count;
    }
    return code != ERR_NONE ? code : closed;
}

static void rank_body(struct rank *rank)
{
    const struct comm_nccl_options options = {calls, 1 << 16, 10000000000u};
    struct comm *comm;
    if (device.accelerator->enter(0) != ERR_NONE) {
        rank_wrong(rank, "%s", err_message());
        return;
    }
    if (comm_nccl_open(rank->comm, &options, &comm) != ERR_NONE) {
        rank_wrong(rank, "open: %s", err_message());
        return;
    }
    rank->comm = comm;
    if (calls == &standin_calls && strcmp(nccl_collective_library(comm), "NCCL 2.15.7") != 0)
        rank_wrong(rank, "%s", nccl_collective_library(comm));
    if (run(rank, rank->context) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    comm_close(comm);
    rank->closed = true;
}

// Forms of an operation: bit 0, uneven; bit 1, in place.
static struct trial trial_of(enum operation operation, int world, int form, bool spoils)
{
    struct trial trial = {.setting = {.device = &device,
                                      .operation = operation,
                                      .world = world,
                                      .count = 1009,
                                      .uneven = form & 1,
                                      .in_place = form & 2},
                          .spoils = spoils};
    standin_begin(world);
    standin.takes_own = true;
    ranks_run_well(world, rank_body, &trial);
    pthread_barrier_destroy(&standin.meeting);
    cr_expect_eq(standin.mismatches, 0, "%s among %d, form %d", comm_ranks_operation_name(operation), world, form);
    cr_expect_eq(shadow.block_count, 0);
    return trial;
}

static void try_all(int world_count)
{
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (int form = 0; form < 4; form++)
            for (int world = 1; world <= world_count; world++) {
                const char *name = comm_ranks_operation_name(operation);
                if (((form & 1) && !comm_ranks_has_shards(operation)) ||
                    ((form & 2) && !comm_ranks_has_in_place(operation)))
                    continue;
                struct trial trial = trial_of(operation, world, form, false);
                cr_expect_eq(trial.wrong_count, 0, "%s among %d, form %d", name, world, form);
                // The stand-in adds from the last rank down, which changes sums of three numbers or more.
                bool sums = operation == REDUCE_SCATTER || operation == ALL_REDUCE;
                cr_expect_eq(trial.other_bits > 0, sums && world > 2 && !(form & 2), "%s among %d, form %d: %lu", name,
                             world, form, (unsigned long)trial.other_bits);
                if (form < 2)
                    cr_expect_eq(trial_of(operation, world, form, true).wrong_count, 1, "%s among %d, form %d", name,
                                 world, form);
            }
}

Test(comm_nccl_ranks, both_orders_of_every_collective_are_verified_on_the_devices)
{
    try_all(4);
}

// One rank, as far as a machine with one GPU can test NCCL itself.
Test(comm_nccl_ranks, in_a_world_of_one_on_nccl_itself_both_are_verified_gpu)
{
    const char *absent = cuda_lane_absent();
    if (absent || comm_nccl_library(&calls) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", absent ? absent : err_message());
        return;
    }
    device.accelerator = &cuda_accelerator;
    try_all(1);
}

static void run_rows(struct rank *rank)
{
    const struct comm_nccl_options options = {calls, 1 << 16, 60000000000u};
    const struct bench_options shared = {.sizes = {1000}, .size_count = 1, .repeat = 1, .json = true};
    struct nccl_choice choice = {NULL, &device, -1, -1, -1};
    if (device.accelerator->enter(0) != ERR_NONE || comm_nccl_open(rank->comm, &options, &rank->comm) != ERR_NONE) {
        rank_wrong(rank, "open: %s", err_message());
        return;
    }
    choice.comm = rank->comm;
    if (nccl_rows_run(&shared, &choice) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
}

Test(comm_nccl_ranks, in_a_world_of_one_nccl_itself_has_every_operation_type_and_reduction_gpu)
{
    const char *absent = cuda_lane_absent();
    if (absent || comm_nccl_library(&calls) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", absent ? absent : err_message());
        return;
    }
    device.accelerator = &cuda_accelerator;
    struct printed printed = printed_begin();
    ranks_run_well(1, run_rows, NULL);
    char *text = printed_end(printed);
    // On devices before 9.0, NCCL reduces no fp8.
    cr_expect(strstr(text, "\"operation\":\"reduce\",\"world\":1,\"dtype\":\"uint64\",\"reduction\":\"avg\""), "%s",
              text);
    free(text);
}

// Expects the kinds of rank 1's last calls of NCCL, in this order.
static void expect_calls(enum operation operation, int form, const enum kind kinds[], int count)
{
    (void)trial_of(operation, 3, form, false);
    const struct member *member = &standin.members[1];
    cr_expect_eq(member->call_count, count, "%s, form %d", comm_ranks_operation_name(operation), form);
    for (int i = 0; i < count && i < member->call_count; i++)
        cr_expect_eq(member->calls[i].kind, kinds[i], "%s, form %d, call %d", comm_ranks_operation_name(operation),
                     form, i);
}

// comm_ranks_count_other_bits calls NCCL's own collective last.
Test(comm_nccl_ranks, the_baseline_is_the_librarys_own_collective)
{
    expect_calls(ALL_REDUCE, 0, (const enum kind[]){KIND_ALL_REDUCE}, 1);
    expect_calls(REDUCE_SCATTER, 0, (const enum kind[]){KIND_REDUCE_SCATTER}, 1);
    expect_calls(REDUCE_SCATTER, 1, (const enum kind[]){KIND_REDUCE, KIND_REDUCE, KIND_REDUCE}, 3);
    expect_calls(ALL_GATHER, 0, (const enum kind[]){KIND_ALL_GATHER}, 1);
    expect_calls(ALL_GATHER, 1, (const enum kind[]){KIND_BROADCAST, KIND_BROADCAST, KIND_BROADCAST}, 3);
    expect_calls(BROADCAST, 0, (const enum kind[]){KIND_BROADCAST}, 1);
    expect_calls(ALL_TO_ALL, 0, (const enum kind[]){KIND_SEND, KIND_RECV, KIND_SEND, KIND_RECV, KIND_SEND, KIND_RECV},
                 6);
}

static void run_case(struct rank *rank)
{
    const struct comm_nccl_options options = {calls, 1 << 24, 10000000000u};
    const struct bench_options shared = {.repeat = 2, .warmup = 1, .json = true};
    struct comm_setting setting = {.device = &device, .operation = ALL_REDUCE, .world = 1, .count = 1 << 20};
    if (device.accelerator->enter(0) != ERR_NONE || comm_nccl_open(rank->comm, &options, &rank->comm) != ERR_NONE) {
        rank_wrong(rank, "open: %s", err_message());
        return;
    }
    setting.comm = rank->comm;
    if (comm_case_run(&shared, &setting) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
}

static void expect_record(const char *line, const char *name, const char *order)
{
    json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    const char *found_name, *transport, *found_order, *found_device;
    int devices, verified;
    cr_assert_eq(json_unpack(record, "{s:s, s:{s:s, s:s, s:s, s:i}, s:b}", "name", &found_name, "case", "transport",
                             &transport, "order", &found_order, "device", &found_device, "devices", &devices,
                             "verified", &verified),
                 0, "%s", line);
    cr_expect_str_eq(found_name, name);
    cr_expect_str_eq(transport, "nccl");
    cr_expect_str_eq(found_order, order);
    cr_expect_str_eq(found_device, "shadow");
    cr_expect(devices == 1 && verified);
    json_decref(record);
}

Test(comm_nccl_ranks, a_case_has_a_record_of_each_order_that_names_nccl_and_the_device)
{
    standin_begin(1);
    struct printed printed = printed_begin();
    ranks_run_well(1, run_case, NULL);
    char *text = printed_end(printed), *second = strchr(text, '\n');
    cr_assert_not_null(second, "%s", text);
    expect_record(text, "comm", "canonical");
    expect_record(second + 1, "comm_native", "native");
    cr_expect(strstr(text, "\"yardstick\":{\"name\":\"NCCL 2.15.7\""), "%s", text);
    cr_expect(strstr(second, "\"library\":\"NCCL 2.15.7\""), "%s", second);
    cr_expect(strstr(second, "\"other_bits\":0"), "%s", second);
    free(text);
}

Test(comm_nccl_ranks, nccl_collectives_are_refused_over_another_transport)
{
    struct comm *comm;
    cr_assert_eq(comm_local_open(1, &comm), ERR_NONE);
    const struct comm_call call = {.operation = COMM_BARRIER};
    cr_expect_eq(nccl_collective_run(comm, &call), ERR_USAGE);
    cr_expect_str_eq(err_message(), "NCCL's own collectives need ranks over NCCL, not over local");
    cr_expect_null(nccl_collective_library(comm));
    comm_close(comm);
}

static void fail_in_nccl(struct rank *rank)
{
    const struct comm_nccl_options options = {&standin_calls, 1 << 16, 60000000000u};
    struct comm *comm;
    if (comm_nccl_open(rank->comm, &options, &comm) != ERR_NONE) {
        rank_wrong(rank, "open: %s", err_message());
        return;
    }
    rank->comm = comm;
    const struct comm_call call = {.operation = COMM_BROADCAST, .dtype = DTYPE_FP32};
    rank_keep(rank, clock_now_s(), nccl_collective_run(comm, &call));
    comm_close(comm);
    rank->closed = true;
}

Test(comm_nccl_ranks, an_nccl_failure_of_one_rank_ends_the_wait_of_the_others)
{
    struct rank ranks[RANKS_MAX];
    standin_begin(3);
    standin.hangs = true;
    standin.failing_rank = 2;
    ranks_run(ranks, 3, fail_in_nccl, NULL);
    for (int rank = 0; rank < 3; rank++) {
        cr_expect_eq(ranks[rank].rc, ERR_PEER);
        cr_expect(rank == 2 || strstr(ranks[rank].message, "rank 2 failed"), "%s", ranks[rank].message);
        cr_expect_lt(ranks[rank].seconds, HANG_S, "rank %d", rank);
        cr_expect_eq(standin.members[rank].aborts, 1);
    }
}
