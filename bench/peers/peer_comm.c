// SPDX-License-Identifier: Apache-2.0
// A collective in turn with a peer's, among ranks on this machine, out of place and in fp32. The setting has
// "operation", "world" and "buffer_bytes" of the full buffer. The peer runs its own ranks and verifies every result.
#include "bench/peers/bench_peer.h"
#include "bench/comm/comm_ranks.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 4096 };

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
        if (ns >= BENCH_SAMPLE_NS)
            break;
    }
    return ERR_NONE;
}

static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct peer *peer,
                   struct bench_samples *ours, struct bench_samples *theirs)
{
    const struct comm_setting *setting = &ranks->setting;
    const char *name = comm_ranks_operation_name(setting->operation);
    const struct bench_work work = {.name = name, .run = repeat, .prepare = prepare, .context = ranks};
    TRY(choose_calls(ranks, &work));
    TRY(peer_send_line(peer, json_pack("{s:s, s:s, s:i, s:I}", "part", "comm", "operation", name, "world",
                                       setting->world, "buffer_bytes", (json_int_t)(setting->count * sizeof(float)))));
    TRY(peer_ready(peer));
    return peer_alternate(&work, peer, options, ranks->calls, (double)ranks->calls, ours, theirs);
}

static int print(const struct peer_options *options, const struct peer *peer, const struct comm_ranks *ranks,
                 double bus_bytes, const struct bench_samples *ours, const struct bench_samples *theirs,
                 uint64_t begin_ns)
{
    const struct comm_setting *setting = &ranks->setting;
    struct bench_record record = {
        .name = "peer",
        .description = json_pack("{s:s, s:s, s:s, s:i, s:s, s:I}", "part", "comm", "peer",
                                 options->label ? options->label : peer->name, "operation",
                                 comm_ranks_operation_name(setting->operation), "world", setting->world, "dtype",
                                 "fp32", "buffer_bytes", (json_int_t)(setting->count * sizeof(float))),
        .detail = json_pack("{s:f, s:f, s:i}", "bus_gb_per_s", bus_bytes / bench_median(ours), "peer_bus_gb_per_s",
                            bus_bytes / bench_median(theirs), "wrong", 0),
        .unit = "ns",
        .lower_is_better = true,
        .verified = true,
        .items = (double)ranks->calls,
        .begin_ns = begin_ns,
        .samples = ours,
        .baseline_name = peer->name,
        .baseline = theirs};
    return bench_print(&options->shared, &record);
}

static int find_operation(const char *name, enum operation *out)
{
    static const enum operation known[] = {ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *out = known[i];
        if (name && strcmp(name, comm_ranks_operation_name(known[i])) == 0)
            return ERR_NONE;
    }
    return err_set(ERR_USAGE, "--operation %s: expected all-gather, all-reduce or reduce-scatter", name ? name : "");
}

int peer_comm(const struct peer_options *options, struct peer *peer)
{
    struct peer_options complete = *options;
    struct bench_options *shared = &complete.shared;
    struct comm_setting setting = {.world = options->world};
    TRY(find_operation(options->operation, &setting.operation));
    bench_default_sizes(shared, (const size_t[]){1 << 20}, 1);
    bench_default_repeat(shared, 11, 3, 2);
    if (shared->size_count != 1 || options->world > WORLD_MAX)
        return err_set(ERR_USAGE, "--sizes: give one, because the peer has one buffer; --world: at most %d", WORLD_MAX);
    setting.count = shared->sizes[0] / sizeof(float);
    struct comm_ranks ranks;
    struct bench_samples ours, theirs;
    size_t wrong_count;
    uint64_t begin_ns = clock_now_ns();
    TRY(comm_ranks_open(&setting, &ranks));
    double bus_bytes = comm_ranks_bus_bytes(&ranks);
    int code = measure(&ranks, shared, peer, &ours, &theirs), closed = comm_ranks_close(&ranks, &wrong_count);
    TRY(code);
    TRY(closed);
    if (wrong_count > 0)
        return err_set(ERR_CHECK, "%s left %zu wrong elements", options->operation, wrong_count);
    return print(&complete, peer, &ranks, bus_bytes, &ours, &theirs, begin_ns);
}
