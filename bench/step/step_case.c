// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_case.h"

#include "base/err.h"
#include "bench/step/lane_kinds.h"
#include "bench/step/lane_table.h"
#include "ref/train/train.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The first step allocates and records the order of layers; the second is the first that prefetches.
enum { SKIPPED_STEPS = 2, SEED = 1 };

struct step_run {
    char digest[33];
    struct lane_table table;
    struct bench_samples passes_ms;
    json_t *timeline, *where;
};

size_t step_largest_layer(const struct model *model)
{
    size_t largest = 1;
    for (int layer = 0; layer < model->layer_count; layer++) {
        size_t count = model_layer_elements(model, layer);
        largest = count > largest ? count : largest;
    }
    return largest;
}

// Sums forward and backward in each measured step of rank 0, without the update, which may use the same lane.
static void take_passes(const struct trace *trace, struct bench_samples *out)
{
    const struct trace_rank *rank = &trace->ranks[0];
    for (size_t step = SKIPPED_STEPS; step < rank->step_count; step++) {
        double ns = 0;
        for (size_t i = 0; i < rank->interval_count[LANE_COMPUTE]; i++) {
            const struct executor_interval *interval = &rank->intervals[LANE_COMPUTE][i];
            bool is_pass = strcmp(interval->name, "forward") == 0 || strcmp(interval->name, "backward") == 0;
            if (is_pass && interval->begin_ns >= rank->steps[step].begin_ns &&
                interval->end_ns <= rank->steps[step].end_ns)
                ns += (double)(interval->end_ns - interval->begin_ns);
        }
        out->values[out->count++] = ns * 1e-6;
    }
}

static bool on_nvme(const struct step_case *c)
{
    return strcmp(c->preset, "zero_infinity") == 0;
}

static int load(const struct step_setting *setting, const struct step_case *c, struct config *config)
{
    char accumulation[48], sequences[64], prefetched[80], buffers[80], reduced[80], gathered[80];
    char mesh[32 + MESH_TEXT_BYTES];
    snprintf(accumulation, sizeof accumulation, "gradient_accumulation_steps=%zu", c->accumulation);
    snprintf(sequences, sizeof sequences, "train_micro_batch_size_per_gpu=%zu", setting->sequences);
    snprintf(prefetched, sizeof prefetched, "zero_optimization.stage3_prefetch_bucket_size=%zu", setting->prefetched);
    snprintf(buffers, sizeof buffers, "zero_optimization.offload_optimizer.buffer_count=%d", STEP_NVME_BUFFERS);
    snprintf(reduced, sizeof reduced, "zero_optimization.reduce_bucket_size=%zu", setting->bucket);
    snprintf(gathered, sizeof gathered, "zero_optimization.allgather_bucket_size=%zu", setting->bucket);
    const char *set[8] = {accumulation, sequences, prefetched, reduced, gathered};
    size_t set_count = 5;
    if (on_nvme(c))
        set[set_count++] = buffers;
    if (c->on_mesh && setting->mesh_text) {
        snprintf(mesh, sizeof mesh, "zerogauge.mesh=%s", setting->mesh_text);
        set[set_count++] = mesh;
    }
    if (setting->dtype)
        set[set_count++] = strcmp(setting->dtype, "fp32") == 0 ? "bf16.enabled=false" : "bf16.enabled=true";
    const struct bench_storage *storage = setting->storage;
    const struct config_options options = {
        .world = c->world,
        .set = set,
        .set_count = set_count,
        .nvme_paths = storage->paths,
        .nvme_path_count = (size_t)storage->path_count,
        .engine = on_nvme(c) ? storage->engine : NULL,
    };
    return config_load_preset(c->preset, &options, config, NULL);
}

// Notes the mean bytes that one rank moves per step.
static void note_bytes(const struct config *config, const struct step_setting *setting,
                       const struct train_result *result, struct step_case *c)
{
    static const enum lane lanes[] = {LANE_COLLECTIVE, LANE_H2D, LANE_D2H, LANE_NVME_READ, LANE_NVME_WRITE};
    enum { STATES = 3, WAYS = 2 };  // master parameters and both moments, read and written
    memset(c->bytes, 0, sizeof c->bytes);
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++)
        for (int operation = 0; operation < OPERATION_COUNT; operation++)
            c->bytes[lanes[i]] += (double)result->moved_bytes[lanes[i]][operation] / c->world / (double)setting->steps;
    bool on_nvme = config->offload_optimizer.tier == TIER_NVME;
    int partitions = c->world / config_mesh(config, c->world).replicate;
    c->optimizer_bytes = on_nvme ? STATES * WAYS * sizeof(float) * (double)result->param_elements / partitions : 0;
    c->activation_bytes = 0;
    for (int layer = 0; config->activation_tier != TIER_DEVICE && layer < setting->model->layer_count; layer++)
        c->activation_bytes += (double)model_checkpoint_bytes(setting->model, layer, setting->sequences);
    c->recomputes = config->activation_checkpointing;
    c->unlocked_bytes = result->unlocked_bytes;
    c->tier = config->offload_optimizer.tier > config->offload_param.tier ? (int)config->offload_optimizer.tier
                                                                          : (int)config->offload_param.tier;
}

// Trains. noted: receives the bytes, and the results are verified; null: neither. Rank 0 uses device `first_device`.
static int train(const struct step_setting *setting, const struct step_case *c, struct step_case *noted,
                 int first_device, struct step_run *out)
{
    struct config config;
    struct trace trace;
    TRY(load(setting, c, &config));
    TRY(trace_open(c->world, &trace));
    const struct train_setting train_setting = {
        .config = &config,
        .model = setting->model,
        .text = setting->text,
        .world = c->world,
        .steps = setting->steps,
        .seed = SEED,
        .schedule = setting->schedule,
        .accelerator = setting->device.accelerator,
        .device_count = setting->device.count,
        .device = first_device,
        // One thread per rank computes; if a device computes, the host's processors share the optimizer.
        .threads = setting->device.accelerator ? 0 : 1,
        .swap_checksum = !setting->storage->no_checksum,
        .buffered = setting->storage->buffered,
        .emulation = setting->emulation,
        .trace = &trace,
        .verify = noted != NULL,
    };
    struct train_result result;
    int rc = train_run(&train_setting, &result);
    free(result.step_ns);
    if (rc == ERR_NONE && (result.difference.found || !result.accounting_equal))
        rc = err_set(ERR_CHECK, "%s differs from unsharded Adam or from the formulas of bytes", c->what);
    if (rc == ERR_NONE && setting->where && !noted)
        rc = lane_kinds_where(&trace, SKIPPED_STEPS, &out->where);
    if (rc == ERR_NONE) {
        lane_table_of(&trace, SKIPPED_STEPS, &out->table);
        take_passes(&trace, &out->passes_ms);
        out->timeline = lane_table_timeline(&trace, SKIPPED_STEPS);
        memcpy(out->digest, result.digest, sizeof out->digest);
        if (noted) {
            note_bytes(&config, setting, &result, noted);
            memcpy(noted->lane_bytes, out->table.bytes, sizeof noted->lane_bytes);
        }
    }
    trace_close(&trace);
    return rc;
}

static void release(struct step_run *run)
{
    json_decref(run->timeline);
    json_decref(run->where);
}

// One of several ranks that train at the same time without communication.
struct alone {
    const struct step_setting *setting;
    const struct step_case *step_case;
    int device;
    pthread_t thread;
    struct step_run run;
    char message[512];
    int rc;
};

static void *train_alone(void *context)
{
    struct alone *alone = context;
    alone->rc = train(alone->setting, alone->step_case, NULL, alone->device, &alone->run);
    snprintf(alone->message, sizeof alone->message, "%s", err_message());
    return NULL;
}

static int join(struct alone ranks[], int started, const struct step_case *c, struct step_run *out)
{
    for (int i = 0; i < started; i++)
        pthread_join(ranks[i].thread, NULL);
    if (started < c->ranks_alone)
        return err_set(ERR_MEMORY, "cannot start a thread for each rank");
    struct alone *slowest = &ranks[0];
    for (int i = 0; i < started; i++) {
        if (ranks[i].rc != ERR_NONE)
            return err_set(ranks[i].rc, "%s", ranks[i].message);
        if (bench_median(&ranks[i].run.table.step_ms) > bench_median(&slowest->run.table.step_ms))
            slowest = &ranks[i];
    }
    *out = slowest->run;
    json_incref(out->timeline);
    json_incref(out->where);
    return ERR_NONE;
}

static int train_ranks_alone(const struct step_setting *setting, const struct step_case *c, struct step_run *out)
{
    struct alone *ranks = calloc((size_t)c->ranks_alone, sizeof *ranks);
    int started = 0;
    if (!ranks)
        return err_set(ERR_MEMORY, "no memory for %d ranks", c->ranks_alone);
    for (; started < c->ranks_alone; started++) {
        ranks[started].setting = setting;
        ranks[started].step_case = c;
        ranks[started].device = setting->device.accelerator ? started % setting->device.count : 0;
        if (pthread_create(&ranks[started].thread, NULL, train_alone, &ranks[started]) != 0)
            break;
    }
    int rc = join(ranks, started, c, out);
    for (int i = 0; i < started; i++)
        release(&ranks[i].run);
    free(ranks);
    return rc;
}

int step_case_verify(const struct step_setting *setting, struct step_case *c)
{
    struct step_run run = {0};
    TRY(train(setting, c, c, 0, &run));
    release(&run);
    memcpy(c->digest, run.digest, sizeof c->digest);
    return ERR_NONE;
}

int step_case_measure(const struct step_setting *setting, struct step_case *c, bool counted)
{
    assert(c->digest[0] != '\0');
    struct step_run run = {0};
    TRY(c->ranks_alone ? train_ranks_alone(setting, c, &run) : train(setting, c, NULL, 0, &run));
    step_case_release(c);
    c->timeline = run.timeline;
    c->where = run.where;
    if (strcmp(run.digest, c->digest) != 0)
        return err_set(ERR_CHECK, "%s: the timed run ended with digest %s, the verified one with %s", c->what,
                       run.digest, c->digest);
    if (!counted)
        return ERR_NONE;
    c->step_ms.values[c->step_ms.count++] = bench_median(&run.table.step_ms) / c->shares;
    c->passes_ms.values[c->passes_ms.count++] = bench_median(&run.passes_ms);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        c->busy_ms[lane].values[c->busy_ms[lane].count++] = bench_median(&run.table.busy_ms[lane]);
    return ERR_NONE;
}

void step_case_release(struct step_case *c)
{
    json_decref(c->timeline);
    json_decref(c->where);
    c->timeline = c->where = NULL;
}
