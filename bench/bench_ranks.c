// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench ranks`: ranks as threads, each on a processor of its own, that do the same work, once each alone and
// once all together, in turn. Equal processors do it equally fast: a rank that does not holds up all others in every
// collective. Two lanes: `compute`, Adam on what stays in a core's cache, and `memory`, Adam on what does not.
#include "bench.h"

#include "adam.h"
#include "adam_arrays.h"
#include "err.h"

#include <popt.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RANKS_MAX = 256,
    COMPUTE_PARAMS = 16 << 10,      // 16 bytes each: in the second-level cache
    MEMORY_PARAMS_LEAST = 4 << 20,
    SAMPLE_TARGET_NS = 20000000,    // several time slices of a processor that others want, too
    ROUNDS_MAX = 1 << 20,
    HOST_BYTES = 65,
};

struct lane {
    const char *name;
    size_t params;
};

// One rank's time in a state: alone or together.
struct rank_times {
    struct bench_samples samples;
    double elapsed_ns, waited_ns;  // of all samples
};

struct ranks;

struct rank {
    const struct ranks *of;
    int index, processor;
    pthread_t thread;
    sem_t go;
    struct adam_arrays arrays;
    struct adam_step step;
    uint64_t step_count;
    double ns, waited_ns;  // of the last sample; waited_ns < 0: the system does not tell
    struct rank_times times[2];  // alone, together
    int code;
    char message[512];
};

struct ranks {
    const struct lane *lane;
    int world, started;
    uint64_t rounds;  // of a sample; 0: the ranks end
    sem_t done;
    struct rank *list;
};

// Nanoseconds that this thread was ready to run and did not; -1: not known.
static double waited_ns(void)
{
    uint64_t ran, waited;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    bool known = file && fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2;
    if (file)
        fclose(file);
    return known ? (double)waited : -1;
}

static int rank_open(struct rank *rank)
{
    const struct recipe *recipe = recipe_at(0);
    const struct adam_hyper hyper = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                                     .decoupled = true, .bias_correction = true};
    struct recipe_state state = {0};
    size_t count = rank->of->lane->params;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)rank->processor, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
        return err_set(ERR_USAGE, "--pin %d: this process may not run on that processor", rank->processor);
    // Pinned first: the memory is then of the processor's own node.
    TRY(adam_arrays_open(count, 1, &rank->arrays));
    adam_arrays_fill(&rank->arrays, DTYPE_FP32);
    rank->step = (struct adam_step){
        .recipe = recipe, .grad = rank->arrays.grad, .grad_dtype = DTYPE_FP32, .grad_divisor = 1, .grad_coefficient = 1,
        .param = rank->arrays.param, .exp_avg = rank->arrays.exp_avg, .exp_avg_sq = rank->arrays.exp_avg_sq,
        .count = count, .tensor_count = count};
    return recipe_begin_step(recipe, &hyper, 1000, &state, &rank->step.scalars);
}

static void rank_sample(struct rank *rank, uint64_t rounds)
{
    double waited = waited_ns();
    uint64_t begin_ns = bench_now_ns();
    for (uint64_t i = 0; i < rounds; i++)
        adam_update(&rank->step);
    rank->ns = (double)(bench_now_ns() - begin_ns);
    rank->waited_ns = waited < 0 ? -1 : waited_ns() - waited;
    rank->step_count += rounds;
}

static void *rank_main(void *context)
{
    struct rank *rank = context;
    rank->code = rank_open(rank);
    snprintf(rank->message, sizeof rank->message, "%s", err_message());
    sem_post((sem_t *)(uintptr_t)&rank->of->done);
    for (;;) {
        while (sem_wait(&rank->go) != 0)
            continue;
        uint64_t rounds = rank->of->rounds;
        if (rounds == 0)
            return NULL;
        rank_sample(rank, rounds);
        sem_post((sem_t *)(uintptr_t)&rank->of->done);
    }
}

static void wait_for(struct ranks *ranks, int count)
{
    for (int i = 0; i < count; i++)
        while (sem_wait(&ranks->done) != 0)
            continue;
}

// The ranks from `first` on, so many of them, at once.
static void sample(struct ranks *ranks, int first, int count)
{
    for (int i = first; i < first + count; i++)
        sem_post(&ranks->list[i].go);
    wait_for(ranks, count);
}

static void keep(struct rank *rank, bool together)
{
    struct rank_times *times = &rank->times[together];
    double params = (double)rank->of->lane->params * (double)rank->of->rounds;
    times->samples.values[times->samples.count++] = rank->ns / params;
    times->elapsed_ns += rank->ns;
    times->waited_ns += rank->waited_ns;
}

// Alone in turn, then all: whatever drifts, drifts for all of them.
static void take_turns(struct ranks *ranks, bool counted)
{
    for (int i = 0; i < ranks->world; i++) {
        sample(ranks, i, 1);
        if (counted)
            keep(&ranks->list[i], false);
    }
    sample(ranks, 0, ranks->world);
    for (int i = 0; i < ranks->world && counted; i++)
        keep(&ranks->list[i], true);
}

static int start(struct ranks *ranks)
{
    int rc = ERR_NONE;
    for (; ranks->started < ranks->world && rc == ERR_NONE; ranks->started++) {
        struct rank *rank = &ranks->list[ranks->started];
        sem_init(&rank->go, 0, 0);
        if (pthread_create(&rank->thread, NULL, rank_main, rank) != 0)
            return err_set(ERR_MEMORY, "no thread for rank %d", rank->index);
        wait_for(ranks, 1);  // one by one: each fills its memory undisturbed
        if (rank->code != ERR_NONE)
            rc = err_set(rank->code, "rank %d: %s", rank->index, rank->message);
    }
    return rc;
}

static void stop(struct ranks *ranks)
{
    ranks->rounds = 0;
    for (int i = 0; i < ranks->started; i++)
        sem_post(&ranks->list[i].go);
    for (int i = 0; i < ranks->started; i++) {
        pthread_join(ranks->list[i].thread, NULL);
        adam_arrays_close(&ranks->list[i].arrays);
        sem_destroy(&ranks->list[i].go);
    }
}

static int print(const struct ranks *ranks, const struct rank *rank, bool together, uint64_t begin_ns,
                 const struct bench_options *options)
{
    char host[HOST_BYTES] = "";
    const struct rank_times *times = &rank->times[together];
    gethostname(host, sizeof host - 1);
    bool waited_known = times->waited_ns >= 0;
    struct bench_record record = {
        .name = "ranks",
        .description = json_pack("{s:s, s:i, s:b, s:i, s:s, s:i, s:I}", "lane", ranks->lane->name, "rank",
                                 rank->index, "together", together, "world", ranks->world, "host", host, "processor",
                                 rank->processor, "params", (json_int_t)ranks->lane->params),
        .detail = waited_known ? json_pack("{s:f}", "waited_share", times->waited_ns / times->elapsed_ns) : NULL,
        .unit = "ns_per_param",
        .lower_is_better = true,
        .verified = true,
        .items = (double)ranks->lane->params * (double)ranks->rounds,
        .begin_ns = begin_ns,
        .samples = &times->samples,
        .yardstick_name = together ? "the same rank alone" : NULL,
        .yardstick = together ? &rank->times[0].samples : NULL,
    };
    return bench_print(options, &record);
}

// Every element of every rank's arrays.
static int verify(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->world; i++) {
        const struct rank *rank = &ranks->list[i];
        int rc = adam_arrays_check(&rank->arrays, &rank->step, rank->step_count);
        if (rc != ERR_NONE)
            return err_prefix(rc, "ranks: rank %d, processor %d", rank->index, rank->processor);
    }
    return ERR_NONE;
}

static int measure(struct ranks *ranks, const struct bench_options *options)
{
    uint64_t begin_ns = bench_now_ns();
    TRY(start(ranks));
    ranks->rounds = 1;
    sample(ranks, 0, 1);
    sample(ranks, 0, 1);
    double rounds = SAMPLE_TARGET_NS / ranks->list[0].ns + 1;
    ranks->rounds = rounds < ROUNDS_MAX ? (uint64_t)rounds : ROUNDS_MAX;
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        bench_progress("ranks %s, round %zu of %zu", ranks->lane->name, i + 1, options->warmup + options->repeat);
        take_turns(ranks, i >= options->warmup);
    }
    TRY(verify(ranks));
    for (int i = 0; i < 2 * ranks->world; i++)
        TRY(print(ranks, &ranks->list[i % ranks->world], i >= ranks->world, begin_ns, options));
    return ERR_NONE;
}

static int run_lane(const struct lane *lane, const size_t *processors, int world, const struct bench_options *options)
{
    struct ranks ranks = {.lane = lane, .world = world};
    ranks.list = calloc((size_t)world, sizeof *ranks.list);
    if (!ranks.list)
        return err_set(ERR_MEMORY, "no memory for %d ranks", world);
    sem_init(&ranks.done, 0, 0);
    for (int i = 0; i < world; i++) {
        ranks.list[i].of = &ranks;
        ranks.list[i].index = i;
        ranks.list[i].processor = (int)processors[i];
    }
    int rc = measure(&ranks, options);
    stop(&ranks);
    sem_destroy(&ranks.done);
    free(ranks.list);
    return rc;
}

// "0,1" into processor numbers; in turn for more ranks than that.
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

static int ranks_bench(const char *pin, int world, struct bench_options *options)
{
    size_t processors[RANKS_MAX];
    int count = pin ? 0 : allowed(processors);
    if (pin)
        TRY(parse_pin(pin, processors, &count));
    if (world < 0 || world > RANKS_MAX)
        return err_set(ERR_USAGE, "--world %d: from 1 to %d ranks", world, RANKS_MAX);
    if (count == 0)
        return err_set(ERR_IO, "the system does not say on which processors this process may run");
    if (options->size_count > 0 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no meaning here; --world and --pin have");
    world = world > 0 ? world : count;
    for (int i = count; i < world; i++)
        processors[i] = processors[i % count];
    size_t past_cache = 2 * bench_cache_bytes() / (size_t)world / (4 * sizeof(float));
    const struct lane lanes[] = {
        {"compute", COMPUTE_PARAMS}, {"memory", past_cache > MEMORY_PARAMS_LEAST ? past_cache : MEMORY_PARAMS_LEAST}};
    bench_default_repeat(options, 25, 9, 2);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        TRY(run_lane(&lanes[i], processors, world, options));
    return ERR_NONE;
}

int bench_ranks_main(int argc, const char **argv)
{
    char *pin = NULL;
    int world = 0;
    struct bench_options options;
    const struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &world, 0, "ranks (one for each processor)", "N"},
        {"pin", '\0', POPT_ARG_STRING, &pin, 0, "their processors, in turn (all that there are)", "0,1"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, BENCH_USES_NOTHING, own, &options);
    if (code == ERR_NONE && !options.help)
        code = ranks_bench(pin, world, &options);
    bench_release(&options);
    free(pin);
    return bench_exit("ranks", code);
}
