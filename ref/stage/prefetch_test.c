// SPDX-License-Identifier: Apache-2.0
// ZeRO-3 fetches layers ahead in the order that it has recorded: the order of the operations that it issues, and steps
// that ask in another order, leave layers out, or use them more than once.
#include "ref/train/offload_test.h"

#include "ref/executor/trace.h"
#include "ref/model/names/model_find.h"
#include "ref/stage/stage_shard.h"

#include <pthread.h>

// The collectives of a step of rank 0 in the order of their lane: 'g' for an all-gather, 's' for a reduce-scatter.
static void collectives_of(const struct trace *trace, uint64_t step, char out[256])
{
    const struct trace_rank *rank = &trace->ranks[0];
    cr_assert_leq(step, rank->step_count);
    const struct trace_step *s = &rank->steps[step - 1];
    size_t length = 0;
    for (size_t i = 0; i < rank->interval_count[LANE_COLLECTIVE]; i++) {
        const struct executor_interval *at = &rank->intervals[LANE_COLLECTIVE][i];
        if (at->begin_ns >= s->begin_ns && at->end_ns <= s->end_ns && length < 255)
            out[length++] = at->name[0] == 'a' ? 'g' : 's';
    }
    out[length] = '\0';
}

// The number of gathers before a scatter; scatters count from 1.
static int gathers_before(const char *collectives, int scatter)
{
    int gathers = 0;
    for (; *collectives; collectives++) {
        scatter -= *collectives == 's';
        if (scatter == 0)
            return gathers;
        gathers += *collectives == 'g';
    }
    return -1;
}

// Four blocks and two ends, each of which has the tied embedding and its own parameters.
enum { LAYERS = 6, GATHERS = 2 * (LAYERS + 2) };

static void trace_run(size_t prefetch, size_t live, struct executor_schedule schedule, char first[256],
                      char second[256])
{
    struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt:layers=4,width=16,heads=2,length=16", .prefetch = prefetch,
                                           .live = live, .schedule = schedule, .steps = 2, .bucket = 1000000);
    struct trace trace;
    cr_assert_not(offload_trace(&t, (struct train_setting){.verify = true}, &trace).difference.found);
    collectives_of(&trace, 1, first);
    collectives_of(&trace, 2, second);
    trace_close(&trace);
}

// In backward the all-gather of the next layer is issued before the reduce-scatter of the present one, and so does not
// wait for it.
Test(prefetch, the_next_layer_is_gathered_before_the_present_gradient_is_sent)
{
    char first[256], second[256], none[256];
    trace_run(1000000, 1000000, (struct executor_schedule){EXECUTOR_OVERLAP, 0}, first, second);
    // The upper end and the blocks have gradients of their own to send; the first layer sends the last.
    for (int scatter = 1; scatter <= 5; scatter++) {
        int behind = gathers_before(first, scatter), ahead = gathers_before(second, scatter);
        cr_assert(behind >= 0 && ahead >= 0, "%s, %s", first, second);
        // The first step records the order and gathers layers only when they are needed.
        int layer_gathers = GATHERS / 2 + 2 + (scatter - 1);
        cr_expect_eq(behind, layer_gathers, "scatter %d of %s", scatter, first);
        cr_expect_geq(ahead, layer_gathers + 1, "scatter %d of %s", scatter, second);
    }
    // Without prefetching every step is as the first.
    trace_run(0, 1000000, (struct executor_schedule){EXECUTOR_OVERLAP, 0}, none, second);
    cr_expect_str_eq(none, first);
    cr_expect_str_eq(second, first);
    // Without room for a second layer: the same, except for the embedding, which has a buffer of its own.
    trace_run(1000000, 1, (struct executor_schedule){EXECUTOR_OVERLAP, 0}, none, second);
    cr_expect_str_eq(none, first);
    for (int scatter = 1; scatter <= 4; scatter++)
        cr_expect_eq(gathers_before(second, scatter), gathers_before(first, scatter), "%s", second);
}

// stage3_prefetch_bucket_size limits the elements fetched ahead. A block of this model has 3,280.
Test(prefetch, the_bucket_says_how_far_ahead)
{
    static const size_t buckets[] = {3279, 3280, 2 * 3280, 3 * 3280};
    char first[256], second[256];
    int last = 0;
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) {
        trace_run(buckets[i], 1000000, (struct executor_schedule){EXECUTOR_SERIAL, 0}, first, second);
        // Before the last block's gradient is sent: of the first step, its own and all before it.
        int ahead = gathers_before(second, 2) - gathers_before(first, 2);
        cr_expect_eq(ahead, (int)i, "%zu elements: %d", buckets[i], ahead);
        cr_expect(i == 0 || ahead > last);
        last = ahead;
    }
}

// --- steps in other orders ---

enum { WORLD = 2, STEPS = 7, VISITS = 9, PARAMS = 15 };

struct plan {
    int forward[STEPS][VISITS], backward[STEPS][VISITS];  // layers, up to -1
};

// Layers 1 to 4 of the linear models may change places. Layers 0 and 5 share a parameter, whose gradient begins in one
// and is complete in the other. Backward visits every layer once; forward any number of times.
static const struct plan natural = {
    {[0 ... STEPS - 1] = {0, 1, 2, 3, 4, 5, -1}},
    {[0 ... STEPS - 1] = {5, 4, 3, 2, 1, 0, -1}},
};
static const struct plan changing = {
    {[0 ... 1] = {0, 1, 2, 3, 4, 5, -1},
     [2 ... 3] = {0, 3, 1, 4, 2, 5, -1},
     {0, 1, 1, 4, 5, 4, 0, 1, -1},
     {5, 0, -1},
     {0, 1, 2, 3, 4, 5, -1}},
    {[0 ... 1] = {5, 4, 3, 2, 1, 0, -1},
     [2 ... 3] = {5, 1, 2, 4, 3, 0, -1},
     {5, 4, 3, 2, 1, 0, -1},
     {5, 3, 4, 1, 2, 0, -1},
     {5, 4, 3, 2, 1, 0, -1}},
};

struct driver {
    const struct plan *plan;
    const struct config *config;
    struct executor_schedule schedule;
    const struct model *model;
    struct comm *comm;
    int rank, code;
    uint64_t seen[STEPS][LAYERS];  // a digest of the layer's parameters, each time the same
    uint64_t end;                  // of the master parameters after the last step
    uint64_t changes[STEPS];
    char message[1024];
};

static uint64_t digest(uint64_t key, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        key = (key ^ at[i]) * 0x100000001b3u;
    return key;
}

// One layer's forward, which reads its parameters, or backward, which makes its gradients.
struct visit {
    struct driver *driver;
    struct model_run *run;
    struct model_batch batch;
    int layer, step;
    bool backward;
    const void *params[PARAMS];
    struct model_gradient gradients[PARAMS];
};

static int run_visit(void *arguments)
{
    struct visit *v = arguments;
    struct driver *d = v->driver;
    if (v->backward)
        TRY(model_backward(v->run, v->layer, &v->batch, v->params, v->gradients, 1.0f, NULL));
    const struct model_layer *layer = &d->model->layers[v->layer];
    uint64_t seen = 0xcbf29ce484222325u, *before = &d->seen[v->step][v->layer];
    for (int i = 0; i < layer->param_count; i++)
        seen = digest(seen, v->params[layer->params[i]],
                      d->model->params[layer->params[i]].count * dtype_bytes(d->config->precision));
    if (*before && *before != seen)
        return err_set(ERR_CHECK, "step %d: layer %s sees other parameters than before", v->step + 1, layer->name);
    *before = seen;
    return ERR_NONE;
}

static int visit(struct driver *d, struct stage *stage, struct model_run *run, int step, int layer, enum pass pass)
{
    const struct model_layer *u = &d->model->layers[layer];
    TRY(stage_acquire(stage, layer, pass));
    struct visit v = {.driver = d,
                      .run = run,
                      .layer = layer,
                      .step = step,
                      .backward = pass == PASS_BACKWARD,
                      .batch = {.sequence_count = 1, .seed = 3, .step = (uint64_t)step + 1, .rank = d->rank}};
    memcpy(v.params, stage->params, (size_t)d->model->param_count * sizeof *v.params);
    memcpy(v.gradients, stage->gradients, (size_t)d->model->param_count * sizeof *v.gradients);
    struct executor_span spans[1 + 2 * PARAMS] = {
        {model_run_memory(run), model_run_bytes(d->model, 1, d->config->precision, false), EXECUTOR_READ_WRITE}};
    size_t count = 1;
    for (int i = 0; i < u->param_count; i++) {
        const struct model_gradient *gradient = &v.gradients[u->params[i]];
        size_t bytes = d->model->params[u->params[i]].count * dtype_bytes(d->config->precision);
        spans[count++] = (struct executor_span){v.params[u->params[i]], bytes, EXECUTOR_READ};
        if (v.backward && gradient->data)
            spans[count++] = (struct executor_span){gradient->data, bytes,
                                                    gradient->accumulate ? EXECUTOR_READ_WRITE : EXECUTOR_WRITE};
    }
    TRY(executor_issue(stage->setting.executor, &(struct executor_operation){.name = "visit",
                                                                             .lane = LANE_COMPUTE,
                                                                             .run = run_visit,
                                                                             .arguments = &v,
                                                                             .arguments_bytes = sizeof v,
                                                                             .spans = spans,
                                                                             .span_count = count}));
    TRY(stage_release(stage, layer));
    return v.backward ? stage_reduce(stage, layer) : ERR_NONE;
}

static int drive(struct driver *d, struct stage *stage, struct model_run *run)
{
    for (int step = 0; step < STEPS; step++) {
        bool applied;
        stage_begin_micro_step(stage, 0);
        for (int i = 0; d->plan->forward[step][i] >= 0; i++)
            TRY(visit(d, stage, run, step, d->plan->forward[step][i], PASS_FORWARD));
        for (int i = 0; d->plan->backward[step][i] >= 0; i++)
            TRY(visit(d, stage, run, step, d->plan->backward[step][i], PASS_BACKWARD));
        TRY(stage_step(stage, &applied));
        TRY(stage_end_update(stage));
        TRY(executor_wait(stage->setting.executor));
        d->changes[step] = stage->prefetcher.access_trace.changes;
    }
    static float full[WORLD][8192];
    for (int bucket = 0; bucket < stage->layout.bucket_count; bucket++) {
        TRY(stage_collect(stage, bucket, STATE_PARAMETER, full[d->rank]));
        d->end = digest(d->end, full[d->rank], stage->layout.buckets[bucket].count * sizeof(float));
    }
    return ERR_NONE;
}

static void give_up(void *context, const char *message)
{
    comm_abort(context, message);
}

static void *drive_rank(void *context)
{
    static const char *const folder[] = {storage_folder};
    struct driver *d = context;
    struct ledger ledger = {0};
    struct stage stage = {0};
    struct stage_setting setting = {
        .model = d->model, .config = d->config, .comm = d->comm, .ledger = &ledger, .seed = 7, .threads = 1};
    const struct tier_nvme_setting nvme = {
        .paths = folder, .path_count = 1, .rank = d->rank, .checksum = true, .aio = d->config->aio};
    const struct stage_operations *operations;
    struct model_run *run = NULL;
    cr_assert_eq(stage_find(3, &operations), ERR_NONE);
    cr_assert_eq(tier_open(&ledger, &(struct tier_setting){0}, &setting.tier), ERR_NONE);
    cr_assert_eq(tier_nvme_open(&nvme, &ledger, &setting.nvme), ERR_NONE, "%s", err_message());
    cr_assert_eq(executor_open(d->schedule, d->rank, setting.tier, give_up, d->comm, &setting.executor), ERR_NONE);
    d->code = stage_open(operations, &setting, &stage);
    if (d->code == ERR_NONE)
        d->code = model_run_open(d->model, 1, d->config->precision, false, setting.tier, &run);
    if (d->code == ERR_NONE)
        d->code = drive(d, &stage, run);
    if (d->code != ERR_NONE) {
        snprintf(d->message, sizeof d->message, "%s", err_message());
        comm_abort(d->comm, d->message);
    }
    executor_close(setting.executor);
    model_run_close(run);
    stage_close(&stage);
    tier_nvme_close(setting.nvme);
    tier_close(setting.tier);
    comm_close(d->comm);
    return NULL;
}

static struct driver run_plan(const struct plan *plan, const struct offload_trial *t)
{
    struct config config;
    struct comm *comms[WORLD];
    struct driver drivers[WORLD];
    pthread_t threads[WORLD];
    cr_assert_eq(offload_config(t, &config), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_local_open(WORLD, comms), ERR_NONE);
    for (int i = 0; i < WORLD; i++) {
        drivers[i] =
            (struct driver){.plan = plan, .config = &config, .schedule = t->schedule, .comm = comms[i], .rank = i};
        cr_assert_eq(model_find(t->model, &drivers[i].model), ERR_NONE);
        cr_assert_eq(pthread_create(&threads[i], NULL, drive_rank, &drivers[i]), 0);
    }
    for (int i = 0; i < WORLD; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORLD; i++)
        cr_assert_eq(drivers[i].code, ERR_NONE, "%s\n%s", drivers[i].message, offload_name(t));
    cr_assert_eq(drivers[0].end, drivers[1].end);
    return drivers[0];
}

// In every order layers see the same parameters, and the parameters end the same. Each change of order is noticed once,
// and the new order is kept.
static void demand_same(struct offload_trial t)
{
    struct driver expected = run_plan(&natural, &t), got = run_plan(&changing, &t);
    static const uint64_t changes[STEPS] = {0, 0, 1, 1, 2, 3, 4};
    cr_assert_eq(got.end, expected.end, "%s", offload_name(&t));
    for (int step = 0; step < STEPS; step++) {
        cr_expect_eq(expected.changes[step], 0);
        cr_expect_eq(got.changes[step], changes[step], "step %d: %d", step + 1, (int)got.changes[step]);
        for (int layer = 0; layer < LAYERS; layer++)
            cr_assert_eq(got.seen[step][layer], expected.seen[step][layer], "step %d, layer %d\n%s", step + 1, layer,
                         offload_name(&t));
    }
}

Test(prefetch, concurrent_another_order_of_layers_changes_no_bit_and_is_recorded)
{
    static const size_t prefetches[] = {0, 3000, 1000000};
    int number = 0;
    for (int p = 0; p < 3; p++)
        for (enum ledger_tier tier = TIER_DEVICE; tier <= TIER_NVME; tier++)
            for (int reuse = 0; reuse < 2; reuse++, number++)
                demand_same(OFFLOAD_TRIAL(.prefetch = prefetches[p], .parameter = tier, .reuse = reuse ? 6000 : 0,
                                          .max_in_cpu = reuse ? 6000 : 0, .param_buffers = 1 + (size_t)number % 3,
                                          .live = number % 4 ? 1000000 : 1, .owner_broadcast = number % 5 == 4,
                                          .schedule = {number % 3, (uint64_t)number}));
}
