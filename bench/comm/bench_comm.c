// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench comm`: the collectives. Ranks are threads, and the baseline is concurrent copies of the same bytes
// (comm_ranks.h defines them); or ranks are a launcher's processes, and the baseline is MPI's own collectives, on GPUs
// NCCL's, which add in an order of their own: the difference is the cost of bitwise reproducible sums. Definitions
// follow nccl-tests (its doc/PERFORMANCE.md); for a buffer of S bytes and N ranks:
//
// algorithm GB/s   S / time
// bus GB/s         bytes that the busiest rank must send or receive, whatever the algorithm / time: reduce-scatter,
//                  all-gather and all-to-all S(N-1)/N, all-reduce 2S(N-1)/N, broadcast S. With uneven shards the first
//                  three are S less the smallest shard, or for an all-to-all N-1 times the largest if that is more
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "bench/comm/comm_case.h"
#include "bench/comm/comm_ranks.h"
#include "base/err.h"
#include "bench/comm/native_collective.h"
#include "bench/comm/nccl_rows.h"

#include <popt.h>
#include <string.h>

static int comm_main(int argc, const char **argv);

const struct benchmark bench_comm = {
    .name = "comm",
    .run = comm_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "collectives: time against concurrent copies of the same bytes",
    .examples = {"zerogauge bench comm --world 4 --sizes 8,1K,1M", "zerogauge bench comm --operation all-reduce --json",
                 "mpirun -n 8 zerogauge bench comm --device cuda --nccl --dtype all --reduction all"},
};

// Smaller and larger buffers are measured out of place and in equal shards only.
enum { VARIED_MIN_BYTES = 1 << 20, VARIED_MAX_BYTES = 256 << 20 };

static bool is_varied(size_t bytes)
{
    return bytes >= VARIED_MIN_BYTES && bytes <= VARIED_MAX_BYTES;
}

struct selection {
    struct bench_options options;
    int world;
    enum dtype dtype;
    char *dtype_name;   // popt's allocation; null: fp32
    char *operation;    // popt's allocation; null: all
    char *reduction;    // popt's allocation; null: sum
    char *device_name;  // popt's allocation; null: not given
    int nccl;           // of NCCL by itself
    struct bench_device device;
    size_t cases_left;  // counting the running one
};

// Returns whether an operation at a size is also measured in uneven shards, or in place.
static bool has_uneven(enum operation operation, size_t bytes)
{
    return is_varied(bytes) && comm_ranks_has_shards(operation);
}

static bool has_in_place(enum operation operation, size_t bytes)
{
    return is_varied(bytes) && comm_ranks_has_in_place(operation);
}

static int case_run(struct selection *selection, const struct comm_setting *setting)
{
    bench_budget_case(selection->cases_left--);
    if (!comm_ranks_sums_exactly(setting))
        return bench_skip("comm: %s in %s is not exact with %d ranks, and so cannot be verified; use --dtype fp32",
                          comm_ranks_operation_name(setting->operation), dtype_name(setting->dtype), setting->world);
    return comm_case_run(&selection->options, setting);
}

// Runs one operation at one size: out of place in equal shards, then, if it is large enough, uneven, and in place.
static int cases_run(struct selection *selection, enum operation operation, size_t bytes)
{
    struct comm_setting setting = {.comm = bench_world_comm(),
                                   .device = selection->device.accelerator ? &selection->device : NULL,
                                   .operation = operation,
                                   .dtype = selection->dtype,
                                   .world = selection->world,
                                   .asked_bytes = bytes,
                                   .count = bytes / dtype_bytes(selection->dtype)};
    TRY(case_run(selection, &setting));
    struct comm_setting uneven = setting, in_place = setting;
    uneven.uneven = true;
    in_place.in_place = true;
    if (has_uneven(operation, bytes))
        TRY(case_run(selection, &uneven));
    return has_in_place(operation, bytes) ? case_run(selection, &in_place) : ERR_NONE;
}

static bool wants(const struct selection *selection, enum operation operation)
{
    return !selection->operation || strcmp(selection->operation, comm_ranks_operation_name(operation)) == 0;
}

static void count_cases(struct selection *selection)
{
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (size_t i = 0; i < selection->options.size_count && wants(selection, operation); i++) {
            size_t bytes = selection->options.sizes[i];
            selection->cases_left += (size_t)(1 + has_uneven(operation, bytes) + has_in_place(operation, bytes));
        }
}

// Resolves --dtype and refuses unknown operations.
static int selection_check(struct selection *selection)
{
    if (selection->reduction)
        return err_set(ERR_USAGE, "--reduction: only NCCL's have one that is no sum; add --nccl");
    if (selection->dtype_name && !dtype_of_name(selection->dtype_name, &selection->dtype))
        return err_set(ERR_USAGE, "--dtype \"%s\": expected fp32, bf16 or fp16", selection->dtype_name);
    bool known = !selection->operation;
    for (enum operation operation = 0; operation < OPERATION_KINDS && !known; operation++)
        known = strcmp(selection->operation, comm_ranks_operation_name(operation)) == 0;
    if (!known)
        return err_set(ERR_USAGE,
                       "unknown operation '%s'; known are reduce-scatter, all-gather, all-reduce, "
                       "all-to-all, broadcast",
                       selection->operation);
    return ERR_NONE;
}

static void selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    bool apart = selection->device.accelerator;
    static const size_t sizes[] = {8,       256,      4 << 10,   64 << 10, 1 << 20,
                                   4 << 20, 16 << 20, 256 << 20, 1 << 30,  (size_t)8 << 30};
    static const size_t quick_sizes[] = {8, 64 << 10, 4 << 20};
    bench_default_sizes(options, options->quick ? quick_sizes : sizes, options->quick ? 3 : apart ? 10 : 7);
    bench_default_repeat(options, 15, 7, 1);
}

// Ranks that are threads have no library whose collectives could be compared.
static int skip_native(const struct selection *selection)
{
    const char *hint = "this binary was built without MPI, which processes would be compared with";
    if (selection->device.accelerator)
        hint =
            "mpirun -n N zerogauge bench comm --device cuda, with a GPU for each rank, compares with NCCL's own order";
    else if (mpi_collective_library())
        hint = "mpirun -n N zerogauge bench comm compares with MPI's own order";
    return bench_skip("comm_native: ranks that are threads add in canonical order only; %s", hint);
}

static int all_cases_run(struct selection *selection)
{
    const struct bench_options *options = &selection->options;
    if (!options->json)
        comm_print_header(selection->world, selection->dtype, &selection->device);
    count_cases(selection);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (size_t i = 0; i < options->size_count && wants(selection, operation); i++)
            TRY(cases_run(selection, operation, options->sizes[i]));
    return bench_world_comm() ? ERR_NONE : skip_native(selection);
}

// NCCL by itself, whose types and operations are more than ours.
static int nccl_bench(struct selection *selection)
{
    struct nccl_choice choice;
    bool absent = false;
    TRY(nccl_choose("--operation", selection->operation ? selection->operation : "all", nccl_operation_name,
                    NCCL_OPERATION_COUNT, &choice.operation));
    TRY(nccl_choose("--dtype", selection->dtype_name ? selection->dtype_name : "fp32", nccl_type_name, NCCL_TYPE_COUNT,
                    &choice.type));
    TRY(nccl_choose("--reduction", selection->reduction ? selection->reduction : "sum", nccl_reduction_name,
                    NCCL_REDUCTION_COUNT, &choice.reduction));
    TRY(bench_world_find_device(selection->device_name, selection->world, &selection->device, &absent));
    if (absent)
        return bench_skip("comm: %s", err_message());
    choice.comm = bench_world_comm();
    choice.device = &selection->device;
    if (!choice.comm || !nccl_graph_is_possible(choice.comm))
        return err_set(ERR_USAGE, "--nccl: ranks must be processes with a GPU each: mpirun -n N, --device cuda");
    selection_complete(selection);
    return nccl_rows_run(&selection->options, &choice);
}

// device: null is the one that --device names.
static int comm_bench(const struct bench_device *device, struct selection *selection)
{
    bool absent = false;
    TRY(bench_world_choose(&selection->world, 2, WORLD_MAX));
    if (selection->options.thread_count > 0)
        return err_set(ERR_USAGE, "--threads: each rank is one thread here; --world sets their number");
    if (selection->nccl)
        return nccl_bench(selection);
    TRY(selection_check(selection));
    if (device)
        selection->device = *device;
    else
        TRY(bench_world_find_device(selection->device_name, selection->world, &selection->device, &absent));
    if (absent)
        return bench_skip("comm: %s", err_message());
    selection_complete(selection);
    return all_cases_run(selection);
}

int bench_comm_on(const struct bench_device *device, int argc, const char **argv)
{
    struct selection selection = {.world = BENCH_WORLD_DEFAULT};
    struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &selection.world, 0,
         "ranks (default: 2, or the launcher's); --sizes are bytes of the full buffer", "N"},
        {"device", '\0', POPT_ARG_STRING, &selection.device_name, 0,
         "where the buffers are (default: cpu); under mpirun, cuda needs a GPU for each rank and compares with NCCL",
         "cpu|cuda"},
        {"dtype", '\0', POPT_ARG_STRING, &selection.dtype_name, 0, "type of the elements (default: fp32)",
         "fp32|bf16|fp16"},
        {"operation", '\0', POPT_ARG_STRING, &selection.operation, 0,
         "measure only reduce-scatter, all-gather, all-reduce, all-to-all or broadcast", "NAME"},
        {"nccl", '\0', POPT_ARG_NONE, &selection.nccl, 0,
         "measure NCCL by itself, called and in graphs: also reduce, gather, scatter and send-receive, and with "
         "--dtype int8 to uint64, fp64, fp8e4m3, fp8e5m2 or all",
         NULL},
        {"reduction", '\0', POPT_ARG_STRING, &selection.reduction, 0, "of NCCL by itself (default: sum)",
         "sum|prod|max|min|avg|all"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_comm, own, &selection.options);
    if (code == ERR_NONE && !selection.options.help)
        code = comm_bench(device, &selection);
    bench_release(&selection.options, own);
    return bench_exit("comm", code);
}

static int comm_main(int argc, const char **argv)
{
    return bench_comm_on(NULL, argc, argv);
}
