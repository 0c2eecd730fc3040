// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench ranks`: ranks, each on its own processor, do the same work, first each alone, then all together.
// They are threads, or processes of a launcher, on one host or several. Equal processors take equal times; a rank that
// takes longer delays all others in every collective. Three lanes: `vectors`, fused multiply-adds of registers alone,
// which shows a clock that falls under wide vectors; `compute`, Adam on data that stays in a core's cache; and
// `memory`, Adam on data that does not.
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "results/limits/outlier.h"
#include "bench/ranks/ranks.h"

#include "base/err.h"

#include <popt.h>

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static int ranks_main(int argc, const char **argv);

const struct benchmark bench_ranks = {
    .name = "ranks",
    .run = ranks_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "each rank's processor, alone and all together: finds slow ones",
    .examples = {"zerogauge bench ranks --world 4", "zerogauge bench ranks --pin 0,1 --json"},
};

enum {
    RANKS_MAX = 1024,
    COMPUTE_PARAMS = 16 << 10,  // 16 bytes each, so that they fit into the L2 cache
    MEMORY_PARAMS_LEAST = 4 << 20,
    LANES_COUNT = 3,
};

static json_t *times_json(const struct rank_times *times)
{
    json_t *samples = json_array();
    for (size_t i = 0; i < times->samples.count; i++)
        json_array_append_new(samples, json_real(times->samples.values[i]));
    return json_pack("{s:o, s:f, s:f}", "samples", samples, "elapsed_ns", times->elapsed_ns, "waited_ns",
                     times->waited_ns);
}

static int times_take(const json_t *json, struct rank_times *times)
{
    const json_t *samples = json_object_get(json, "samples");
    size_t count = json_array_size(samples);
    if (count == 0 || count > BENCH_REPEAT_MAX)
        return err_set(ERR_INTERNAL, "it has %zu samples", count);
    for (size_t i = 0; i < count; i++)
        times->samples.values[i] = json_number_value(json_array_get(samples, i));
    times->samples.count = count;
    times->elapsed_ns = json_number_value(json_object_get(json, "elapsed_ns"));
    times->waited_ns = json_number_value(json_object_get(json, "waited_ns"));
    return ERR_NONE;
}

static int rank_take(const char *text, struct rank *rank)
{
    json_t *json = json_loads(text, 0, NULL);
    int rc = times_take(json_object_get(json, "alone"), &rank->times[0]);
    if (rc == ERR_NONE)
        rc = times_take(json_object_get(json, "together"), &rank->times[1]);
    rank->processor = (int)json_integer_value(json_object_get(json, "processor"));
    json_decref(json);
    return rc == ERR_NONE ? ERR_NONE : err_prefix(rc, "the report of rank %d", rank->index);
}

// Sends the times of every rank to rank 0, for ranks that are processes.
static int ranks_gather(struct ranks *ranks)
{
    const struct rank *own = &ranks->list[comm_rank(ranks->comm)];
    json_t *json = json_pack("{s:o, s:o, s:i}", "alone", times_json(&own->times[0]), "together",
                             times_json(&own->times[1]), "processor", own->processor);
    char **all = NULL, *text = json_dumps(json, JSON_COMPACT);
    int rc = text ? bench_world_gather(text, &all) : err_set(ERR_MEMORY, "no memory for the times of this rank");
    for (int i = 0; i < ranks->world && all; i++) {
        if (rc == ERR_NONE)
            rc = rank_take(all[i], &ranks->list[i]);
        free(all[i]);
    }
    free(all);
    free(text);
    json_decref(json);
    return rc;
}

static int print(const struct ranks *ranks, const struct rank *rank, bool together, uint64_t begin_ns,
                 const struct bench_options *options)
{
    const struct rank_times *times = &rank->times[together];
    bool waited_known = times->waited_ns >= 0;
    struct bench_record record = {
        .name = "ranks",
        .description = json_pack("{s:s, s:i, s:b, s:i, s:s, s:i, s:I}", "lane", ranks->lane->name, "rank", rank->index,
                                 "together", together, "world", ranks->world, "host", rank->host, "processor",
                                 rank->processor, "params", (json_int_t)ranks->lane->params),
        .detail = waited_known ? json_pack("{s:f}", "waited_share", times->waited_ns / times->elapsed_ns) : NULL,
        .unit = ranks->lane->params > 0 ? "ns_per_param" : "ns_per_fma",
        .lower_is_better = true,
        .items = ranks_items(ranks->lane) * (double)ranks->rounds,
        .begin_ns = begin_ns,
        .samples = &times->samples,
        .baseline_name = together ? "the same rank alone" : NULL,
        .baseline = together ? &rank->times[0].samples : NULL,
    };
    return bench_print(options, &record);
}

// Names the ranks that delay the others. `zerogauge validate` judges result files by the same rule.
static void print_outliers(const struct ranks *ranks, bool together)
{
    double times[RANKS_MAX], centre;
    size_t world = (size_t)ranks->world;
    for (size_t i = 0; i < world; i++)
        times[i] = bench_median(&ranks->list[i].times[together].samples);
    for (size_t i = 0; i < world && world > 1; i++)
        if (outlier_is(times, world, i, &centre))
            printf("OUTLIER  rank %zu (host %s, processor %d) takes %.2f times as long as %s in the lane %s, %s\n", i,
                   ranks->list[i].host, ranks->list[i].processor, times[i] / centre,
                   world == 2 ? "the other rank" : "the ranks' median", ranks->lane->name,
                   together ? "all together" : "each alone");
}

static int measure(struct ranks *ranks, const struct bench_options *options)
{
    uint64_t begin_ns = clock_now_ns();
    struct ranks_turns turns =
        ranks_turns_within(options->budget_s / LANES_COUNT, ranks->world, options->warmup, options->repeat);
    ranks->sample_ns = turns.sample_ns;
    TRY(ranks_start(ranks));
    TRY(ranks_choose_rounds(ranks));
    for (size_t i = 0; i < turns.warmup + turns.repeat; i++) {
        bench_progress("ranks %s, round %zu of %zu", ranks->lane->name, i + 1, turns.warmup + turns.repeat);
        TRY(ranks_take_turns(ranks, i >= turns.warmup));
    }
    TRY(ranks_verify(ranks));
    if (ranks->comm)
        TRY(ranks_gather(ranks));
    if (bench_world_rank() > 0)
        return ERR_NONE;
    for (int i = 0; i < 2 * ranks->world; i++)
        TRY(print(ranks, &ranks->list[i % ranks->world], i >= ranks->world, begin_ns, options));
    for (int together = 0; together < 2 && !options->json; together++)
        print_outliers(ranks, together);
    return ERR_NONE;
}

static int run_lane(const struct ranks_lane *lane, const size_t *processors, int world,
                    const struct bench_options *options)
{
    char host[BENCH_HOST_BYTES] = "";
    struct ranks ranks = {.lane = lane, .world = world, .comm = bench_world_comm()};
    ranks.list = calloc((size_t)world, sizeof *ranks.list);
    if (!ranks.list)
        return err_set(ERR_MEMORY, "no memory for %d ranks", world);
    gethostname(host, sizeof host - 1);
    sem_init(&ranks.done, 0, 0);
    for (int i = 0; i < world; i++) {
        ranks.list[i].of = &ranks;
        ranks.list[i].index = i;
        ranks.list[i].processor = (int)processors[i];
        ranks.list[i].host = ranks.comm ? bench_world_host(i) : host;
    }
    int rc = measure(&ranks, options);
    ranks_stop(&ranks);
    sem_destroy(&ranks.done);
    free(ranks.list);
    return rc;
}

// Parses processor numbers such as "0,1".
static int parse_pin(const char *text, size_t processors[RANKS_MAX], int *count)
{
    *count = 0;
    while (text) {
        char *end;
        unsigned long number = strtoul(text, &end, 10);
        if (end == text || number >= CPU_SETSIZE || (*end && *end != ',') || *count == RANKS_MAX)
            return err_set(ERR_USAGE, "--pin: '%s' is not a list of processors such as 0,1", text);
        processors[(*count)++] = number;
        text = *end ? end + 1 : NULL;
    }
    return ERR_NONE;
}

static int allowed(size_t processors[RANKS_MAX])
{
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (size_t i = 0; i < CPU_SETSIZE && count < RANKS_MAX; i++)
        if (CPU_ISSET(i, &set))
            processors[count++] = i;
    return count;
}

// Returns the parameters of a rank of the lane `memory`: all together twice as large as the caches, as far as the
// memory permits it.
static size_t memory_params_of(int world)
{
    size_t past_cache = 2 * bench_cache_bytes() / (size_t)world / (4 * sizeof(float));
    size_t wanted = past_cache > MEMORY_PARAMS_LEAST ? past_cache : MEMORY_PARAMS_LEAST;
    size_t permitted = bench_memory_bytes() / (size_t)world / ADAM_CASE_ALLOCATED_BYTES;
    size_t params = wanted < permitted ? wanted : permitted;
    return params > COMPUTE_PARAMS ? params : COMPUTE_PARAMS;
}

static int ranks_bench(const char *pin, int world, struct bench_options *options)
{
    size_t processors[RANKS_MAX];
    int count = pin ? 0 : allowed(processors), time = bench_thread_count();
    // A control group may have less processor time than its processors have.
    count = count < time ? count : time;
    if (pin)
        TRY(parse_pin(pin, processors, &count));
    TRY(bench_world_choose(&world, count, RANKS_MAX));
    if (world > RANKS_MAX)
        return err_set(ERR_USAGE, "%d ranks are too many: at most %d", world, RANKS_MAX);
    if (count == 0)
        return err_set(ERR_IO, "the system does not report on which processors this process may run");
    if (options->size_count > 0 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no effect here; use --world and --pin");
    for (int i = count; i < world; i++)
        processors[i] = processors[i % count];
    // On each host, ranks take the processors of --pin in turn, or one of their own.
    if (bench_world_comm())
        processors[bench_world_rank()] = pin ? processors[bench_world_rank_on_host()] : (size_t)bench_world_processor();
    size_t memory_params = memory_params_of(world);
    if (bench_world_comm())  // the same work on every host
        TRY(comm_broadcast(bench_world_comm(), &memory_params, sizeof memory_params, 0));
    const struct ranks_lane lanes[LANES_COUNT] = {
        {"vectors", 0}, {"compute", COMPUTE_PARAMS}, {"memory", memory_params}};
    bench_default_repeat(options, 25, 9, 2);
    for (size_t i = 0; i < LANES_COUNT; i++)
        TRY(run_lane(&lanes[i], processors, world, options));
    return ERR_NONE;
}

static int ranks_main(int argc, const char **argv)
{
    char *pin = NULL;
    int world = BENCH_WORLD_DEFAULT;
    struct bench_options options;
    const struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &world, 0, "ranks (default: one for each processor, or the launcher's)", "N"},
        {"pin", '\0', POPT_ARG_STRING, &pin, 0, "processors of the ranks in turn (default: all)", "0,1"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_ranks, own, &options);
    if (code == ERR_NONE && !options.help)
        code = ranks_bench(pin, world, &options);
    bench_release(&options, own);
    return bench_exit("ranks", code);
}
