// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench links`: the network between hosts, measured in pairs under a launcher. The first rank of each host,
// or on one host every rank, exchanges few bytes (`ping`) and many (`bandwidth`) with one partner after the other; all
// pairs of a round run together, each both ways. A rank's result is that with its fastest partner: its own slow
// link shows with every partner, a partner's slow link with one. So a rank beyond results/limits/outlier.h has a slow
// link. The times of all pairs say which host is slow with most partners, and which link with neither host to blame
// (results/limits/link_map.h). Pairs across a cut of the network, alone and together (`cut`), say what they share.
#include "bench/ranks/links.h"

#include "bench/harness/bench_world.h"
#include "results/limits/link_map.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>

static int links_main(int argc, const char **argv);

const struct benchmark bench_links = {
    .name = "links",
    .run = links_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "network between hosts, in pairs: finds slow links",
    .text =
        "The network between hosts, measured in pairs, all of up to 256 hosts: finds slow links, and which of two "
        "hosts is to blame by their links to third hosts, and groups of hosts, as switches make them. Of four hosts or "
        "more, pairs across a cut exchange together, and each alone: between groups, else between the two halves of "
        "the hosts. The page of a result has a map of all pairs. Runs under mpirun or srun; skipped with one process. "
        "--sizes takes one size here, of the messages that measure bandwidth.",
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
    json_t *us_with = json_object();
    for (int round = 0; round < links->rounds; round++) {
        double ns = links_median_ns(links, rank, round);
        if (isnan(ns))
            continue;
        char partner[16];
        snprintf(partner, sizeof partner, "%d", links_partner(links, round, position));
        json_object_set_new(us_with, partner, json_real(ns / 1e3));
        partners++;
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
        .detail =
            json_pack("{s:i, s:i, s:s, s:f, s:o}", "partners", partners, "slowest_partner", slowest,
                      "slowest_partner_host", bench_world_host(slowest), "slowest_us", most / 1e3, "us_with", us_with),
        .unit = lane->unit,
        .lower_is_better = lane->is_time,
        .items = lane->exchanges * (lane->is_time ? 1 : (double)lane->bytes),
        .begin_ns = begin_ns,
        .samples = samples,
    };
    return bench_print(options, &record);
}

static int fill_map(const struct links *links, struct link_map *map)
{
    TRY(link_map_open((size_t)links->count, map));
    for (int i = 0; i < links->count; i++)
        for (int round = 0; round < links->rounds; round++) {
            int partner = links->partners[round * links->count + i];
            if (partner >= 0)
                link_map_add(map, (size_t)i, (size_t)partner, links_median_ns(links, links->members[i], round));
        }
    TRY(link_map_group(map));
    link_map_judge(map);
    return ERR_NONE;
}

// Names the hosts that are slow with most partners, and the slow links that neither host explains. Sets groups, unless
// there is one.
static int judge(const struct links *links, bool quiet, size_t *groups)
{
    struct link_map map = {0};
    struct link_host hosts[STATISTICS_COUNT_MAX];
    char texts[LINKS_SHOWN][LINK_TEXT_BYTES];
    if (links->count > STATISTICS_COUNT_MAX)
        return ERR_NONE;
    links_hosts(links, hosts);
    int rc = fill_map(links, &map);
    if (rc == ERR_NONE && !quiet)
        links_show(texts, link_map_texts(&map, hosts, links->lane->name, texts, LINKS_SHOWN), links->lane->name);
    for (size_t i = 0; rc == ERR_NONE && map.between > 0 && i < map.count; i++)
        groups[i] = map.groups[i];
    link_map_close(&map);
    return rc;
}

static int print_all(const struct links *links, uint64_t begin_ns, const struct bench_options *options, size_t *groups)
{
    int rc = ERR_NONE;
    for (int i = 0; i < links->count && rc == ERR_NONE; i++) {
        struct bench_samples samples;
        links_samples(links, links->members[i], &samples);
        rc = print(links, i, &samples, begin_ns, options);
    }
    return rc == ERR_NONE ? judge(links, options->json, groups) : rc;
}

static int run_lane(struct links *links, const struct link_lane *lane, const struct bench_options *options,
                    size_t *groups)
{
    uint64_t begin_ns = clock_now_ns();
    TRY(links_measure(links, lane, options));
    return comm_rank(links->comm) == 0 ? print_all(links, begin_ns, options, groups) : ERR_NONE;
}

static int run_lanes(struct links *links, const struct bench_options *options)
{
    const struct link_lane lanes[] = {{"ping", "ns", true, PING_BYTES, PING_EXCHANGES},
                                      {"bandwidth", "GB/s", false, options->sizes[0], BANDWIDTH_EXCHANGES}};
    size_t groups[STATISTICS_COUNT_MAX] = {0};
    for (size_t i = 0; i < 2; i++)
        TRY(run_lane(links, &lanes[i], options, groups));
    bool are_hosts = bench_world_host_count() >= 4 && links->count <= STATISTICS_COUNT_MAX;
    return are_hosts ? links_cut(links, groups, &lanes[1], options) : ERR_NONE;
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
    int rc = links_open(&links);
    if (rc == ERR_NONE)
        rc = run_lanes(&links, options);
    links_close(&links);
    return rc;
}

static int links_main(int argc, const char **argv)
{
    struct bench_options options;
    int code = bench_parse(argc, argv, &bench_links, NULL, &options);
    if (code == ERR_NONE && !options.help)
        code = links_bench(&options);
    bench_release(&options, NULL);
    return bench_exit("links", code);
}
