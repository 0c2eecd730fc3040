// SPDX-License-Identifier: Apache-2.0
// A collective in turn with a peer's, among ranks on this machine, out of place and in fp32, at each of --sizes. The
// setting has "operation" and "world"; a request {"do":"size","buffer_bytes":N} precedes the runs with a full buffer of
// that size, and its answer is any object. The peer runs its own ranks and verifies every result.
#include "bench/peers/bench_peer.h"
#include "bench/comm/comm_ranks.h"

#include "base/err.h"

#include <string.h>

// A turn is longer than a scheduler needs to place more ranks than processors.
enum { CALLS_MAX = 1 << 17, TURN_NS = 5 * BENCH_SAMPLE_NS };

static int prepare(void *context)
{
    return comm_ranks_prepare(context, TASK_COLLECTIVE, false);
}

static int repeat(void *context)
{
    return comm_ranks_repeat(context);
}

static int choose_calls(struct comm_ranks *ranks, const struct bench_work *work)
{
    for (; ranks->calls < CALLS_MAX; ranks->calls *= 2) {
        uint64_t first_ns, ns;
        TRY(bench_time(work, &first_ns));
        TRY(bench_time(work, &ns));
        if (ns >= TURN_NS)
            break;
    }
    return ERR_NONE;
}

static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct peer *peer,
                   struct bench_samples *ours, struct bench_samples *theirs)
{
    const struct comm_setting *setting = &ranks->setting;
    const struct bench_work work = {
        .name = comm_ranks_operation_name(setting->operation), .run = repeat, .prepare = prepare, .context = ranks};
    json_t *answer;
    TRY(choose_calls(ranks, &work));
    TRY(peer_ask(peer,
                 json_pack("{s:s, s:I}", "do", "size", "buffer_bytes", (json_int_t)(setting->count * sizeof(float))),
                 &answer));
    json_decref(answer);
    return peer_alternate(&work, peer, options, ranks->calls, (double)ranks->calls, ours, theirs);
}

static int print(const struct peer_options *options, const struct peer *peer, const struct comm_ranks *ranks,
                 double bus_bytes, const struct bench_samples *ours, const struct bench_samples *theirs,
                 uint64_t begin_ns)
{
    const struct comm_setting *setting = &ranks->setting;
    struct bench_record record = {
        .name = "peer",
        .description = json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I}", "part", "comm", "peer",
                                 options->label ? options->label : peer->name, "operation",
                                 comm_ranks_operation_name(setting->operation), "world", setting->world, "dtype",
                                 "fp32", "asked_bytes", (json_int_t)setting->asked_bytes, "buffer_bytes",
                                 (json_int_t)(setting->count * sizeof(float))),
        .detail = json_pack("{s:f, s:f, s:i}", "bus_gb_per_s", bus_bytes / bench_median(ours), "peer_bus_gb_per_s",
                            bus_bytes / bench_median(theirs), "wrong", 0),
        .unit = "ns",
        .lower_is_better = true,
        .items = (double)ranks->calls,
        .begin_ns = begin_ns,
        .samples = ours,
        .baseline_name = peer->name,
        .baseline = theirs};
    return bench_print(&options->shared, &record);
}

static int find_operation(const char *name, enum operation *out)
{
    for (*out = 0; *out < OPERATION_KINDS; ++*out)
        if (name && strcmp(name, comm_ranks_operation_name(*out)) == 0)
            return ERR_NONE;
    return err_set(ERR_USAGE,
                   "--operation %s: expected all-gather, all-reduce, reduce-scatter, all-to-all or broadcast",
                   name ? name : "");
}

static int run_size(const struct peer_options *options, struct peer *peer, const struct comm_setting *setting)
{
    struct comm_ranks ranks;
    struct bench_samples ours, theirs;
    size_t wrong_count;
    uint64_t begin_ns = clock_now_ns();
    TRY(comm_ranks_open(setting, &ranks));
    double bus_bytes = comm_ranks_bus_bytes(&ranks);
    int code = measure(&ranks, &options->shared, peer, &ours, &theirs), closed = comm_ranks_close(&ranks, &wrong_count);
    TRY(code);
    TRY(closed);
    if (wrong_count > 0)
        return err_set(ERR_CHECK, "%s left %zu wrong elements", options->operation, wrong_count);
    return print(options, peer, &ranks, bus_bytes, &ours, &theirs, begin_ns);
}

int peer_comm(const struct peer_options *options, struct peer *peer)
{
    struct peer_options complete = *options;
    struct bench_options *shared = &complete.shared;
    struct comm_setting setting = {.world = options->world};
    TRY(find_operation(options->operation, &setting.operation));
    bench_default_sizes(shared, (const size_t[]){1 << 20}, 1);
    bench_default_repeat(shared, 11, 7, 2);
    if (options->world > WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: at most %d", options->world, WORLD_MAX);
    TRY(peer_send_line(
        peer, json_pack("{s:s, s:s, s:i}", "part", "comm", "operation", options->operation, "world", setting.world)));
    TRY(peer_ready(peer));
    for (size_t i = 0; i < shared->size_count; i++) {
        setting.asked_bytes = shared->sizes[i];
        setting.count = setting.asked_bytes / sizeof(float);
        TRY(run_size(&complete, peer, &setting));
    }
    return ERR_NONE;
}
