// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench links`: the network between hosts, measured in pairs under a launcher. The first rank of each host,
// or on one host every rank, exchanges few bytes (`ping`) and many (`bandwidth`) with one partner after the other; all
// pairs of a round run at once, each in both directions. A rank's result is that with its fastest partner: its own slow
// link shows with every partner, a partner's slow link with one. So a rank beyond results/limits/outlier.h has a slow
// link.
#include "bench/ranks/links.h"

#include "bench/harness/bench_world.h"
#include "results/limits/outlier.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int links_main(int argc, const char **argv);

const struct benchmark bench_links = {
    .name = "links",
    .run = links_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "network between hosts, in pairs: finds slow links",
    .text = "The network between hosts, measured in pairs: finds slow links. Runs under mpirun or srun; skipped with "
            "one process. --sizes takes one size here, of the messages that measure bandwidth.",
    .examples = {"mpirun -n 4 --host one,two,three,four zerogauge bench links",
                 "srun -N 8 zerogauge bench links --json"},
};

enum {
    PING_BYTES = 8,
    PING_EXCHANGES = 64,
    BANDWIDTH_EXCHANGES = 4,
    BANDWIDTH_BYTES = 1 << 20,
    BANDWIDTH_QUICK_BYTES = 256 << 10,
};

static int print(const struct links *links, int position, const struct bench_samples *samples, uint64_t begin_ns,
                 const struct bench_options *options)
{
    const struct link_lane *lane = links->lane;
    int rank = links->members[position], partners = 0, slowest = -1;
    double most = 0;
    for (int round = 0; round < links->rounds; round++) {
        double ns = links_median_ns(links, rank, round);
        partners += !isnan(ns);
        if (ns > most) {
            most = ns;
            slowest = links_partner(links, round, position);
        }
    }
    struct bench_record record = {
        .name = "links",
        .description = json_pack("{s:s, s:i, s:i, s:s, s:i, s:I}", "lane", lane->name, "rank", rank, "world",
                                 comm_world(links->comm), "host", bench_world_host(rank), "hosts",
                                 bench_world_host_count(), "bytes", (json_int_t)lane->bytes),
        .detail = json_pack("{s:i, s:i, s:s, s:f}", "partners", partners, "slowest_partner", slowest,
                            "slowest_partner_host", bench_world_host(slowest), "slowest_us", most / 1e3),
        .unit = lane->unit,
        .lower_is_better = lane->is_time,
        .verified = true,
        .items = lane->exchanges * (lane->is_time ? 1 : (double)lane->bytes),
        .begin_ns = begin_ns,
        .samples = samples,
    };
    return bench_print(options, &record);
}

// Names the hosts with slow links. `zerogauge validate` judges result files by the same rule.
static void print_outliers(const struct links *links, const struct bench_samples *samples)
{
    double times[STATISTICS_COUNT_MAX], centre;
    size_t count = (size_t)links->count;
    if (count < 2 || count > STATISTICS_COUNT_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        double median = bench_median(&samples[i]);
        times[i] = links->lane->is_time ? median : 1 / median;
    }
    for (size_t i = 0; i < count; i++)
        if (outlier_is(times, count, i, &centre))
            printf("OUTLIER  the link of host %s (rank %d) takes %.2f times as long as the median in the lane %s\n",
                   bench_world_host(links->members[i]), links->members[i], times[i] / centre, links->lane->name);
}

static int print_all(const struct links *links, uint64_t begin_ns, const struct bench_options *options)
{
    struct bench_samples *samples = calloc((size_t)links->count, sizeof *samples);
    int rc = samples ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the samples of %d links", links->count);
    for (int i = 0; i < links->count && rc == ERR_NONE; i++) {
        links_samples(links, links->members[i], &samples[i]);
        rc = print(links, i, &samples[i], begin_ns, options);
    }
    if (rc == ERR_NONE && !options->json)
        print_outliers(links, samples);
    free(samples);
    return rc;
}

static int run_lane(struct links *links, const struct link_lane *lane, const struct bench_options *options)
{
    uint64_t begin_ns = clock_now_ns();
    TRY(links_measure(links, lane, options));
    return comm_rank(links->comm) == 0 ? print_all(links, begin_ns, options) : ERR_NONE;
}

static int links_bench(struct bench_options *options)
{
    static const size_t large = BANDWIDTH_BYTES, quick = BANDWIDTH_QUICK_BYTES;
    struct links links = {.comm = bench_world_comm()};
    if (options->size_count > 1 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes takes one size here, of the bandwidth's messages; --threads has no effect");
    if (!links.comm)
        return bench_skip("links: this process has no partners; start several with mpirun or srun");
    bench_default_sizes(options, options->quick ? &quick : &large, 1);
    bench_default_repeat(options, 25, 9, 2);
    links.repeat = options->repeat;
    links.members = calloc((size_t)comm_world(links.comm), sizeof *links.members);
    if (links.members)
        links_choose_members(&links);
    links.times = calloc((size_t)comm_world(links.comm) * (size_t)links.rounds * links.repeat + 1, sizeof(double));
    const struct link_lane lanes[] = {{"ping", "ns", true, PING_BYTES, PING_EXCHANGES},
                                      {"bandwidth", "GB/s", false, options->sizes[0], BANDWIDTH_EXCHANGES}};
    int rc = links.members && links.times ? ERR_NONE : err_set(ERR_MEMORY, "no memory for links");
    for (size_t i = 0; i < 2 && rc == ERR_NONE; i++)
        rc = run_lane(&links, &lanes[i], options);
    free(links.times);
    free(links.members);
    return rc;
}

static int links_main(int argc, const char **argv)
{
    struct bench_options options;
    int code = bench_parse(argc, argv, &bench_links, NULL, &options);
    if (code == ERR_NONE && !options.help)
        code = links_bench(&options);
    bench_release(&options);
    return bench_exit("links", code);
}
