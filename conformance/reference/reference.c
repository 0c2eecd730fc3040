// SPDX-License-Identifier: Apache-2.0
// Answers a case: its configuration, its model, the run, and what is kept from one half of a resumed case for the
// other.
#include "conformance/reference/reference.h"

#include "conformance/contract/answer.h"
#include "conformance/cases/case_folders.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "ref/model/export/export.h"
#include "base/file.h"
#include "conformance/reference/mesh_ranks.h"
#include "conformance/reference/scripted_model.h"
#include "ref/stage/stage_shard.h"
#include "ref/tier/nvme_folder.h"
#include "ref/train/train.h"
#include "ref/train/train_checkpoint.h"
#include "ref/checkpoint/weights.h"
#include "base/terminal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// All that a case's run needs.
struct reference_run {
    const struct reference_options *options;
    const char *answer;  // folder
    int world;           // that is asked for; 0: the case's
    const char *state;   // {state}, or null
    const char *nvme_path;
    struct check_case c;
    struct reference_config config;
    int before_steps;
    char store[PATH_MAX];  // where this case's checkpoints are
    struct scripted *scripted;
    struct weights *weights;
    struct train_checkpoints checkpoints;
    struct reference_report *report;
};

// True if this process has rank 0.
static bool is_first(const struct reference_run *run)
{
    return !run->options->comm || comm_rank(run->options->comm) == 0;
}

// The weights of the checkpoint, and nothing else of it, begin the run.
static int take_weights(struct reference_run *run, struct train_setting *setting)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "", path[PATH_MAX];
    TRY(checkpoint_open(run->store, &checkpoint, notes));
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: there is no checkpoint", run->store);
    int rc = file_join(run->store, "weights.safetensors", path);
    if (rc == ERR_NONE && is_first(run))
        rc = export_weights(checkpoint, path, DTYPE_FP32);
    checkpoint_close(checkpoint);
    TRY(rc);
    if (setting->comm)
        TRY(comm_barrier(setting->comm));
    TRY(weights_open(path, setting->model, &run->weights));
    setting->model = &run->weights->model;
    return ERR_NONE;
}

static int open_checkpoints(struct reference_run *run, struct train_setting *setting)
{
    const struct check_case *c = &run->c;
    if (c->phase == PHASE_RESUME && c->weights_only)
        return take_weights(run, setting);
    char notes[NOTES_BYTES];
    const struct train_checkpoint_options options = {
        .save = c->phase == PHASE_SAVE ? run->store : NULL,
        .resume = c->phase == PHASE_RESUME ? run->store : NULL,
    };
    TRY(train_checkpoints_open(&options, setting, &run->checkpoints, notes));
    setting->checkpoints = &run->checkpoints;
    if (c->phase != PHASE_RESUME)
        return ERR_NONE;
    uint64_t step = checkpoint_manifest(run->checkpoints.from)->step;
    if (step != (uint64_t)c->checkpoint_step)
        return err_set(ERR_USAGE, "%s: is a checkpoint of step %llu, expected step %d", run->store,
                       (unsigned long long)step, c->checkpoint_step);
    return ERR_NONE;
}

// Through the page cache where there is no direct I/O.
static bool needs_page_cache(const char *path)
{
    struct nvme_folder folder;
    if (nvme_folder_open(path, false, &folder) != ERR_NONE)
        return true;
    nvme_folder_close(&folder);
    return false;
}

// A stage begins with parameters that its precision represents; of another run's master parameters it gets every bit.
static int place_weights(const struct weights *weights, struct stage *stage)
{
    const struct layout *layout = &stage->layout;
    for (int i = 0; i < layout->trainable_count; i++) {
        const struct bucket *bucket = &layout->buckets[i];
        float *full = calloc(bucket->padded_count + 1, sizeof *full);
        if (!full)
            return err_set(ERR_MEMORY, "no memory for the weights of %zu elements", bucket->padded_count);
        for (int k = 0; k < bucket->param_count; k++) {
            int param = bucket->params[k];
            memcpy(full + layout->offset_of[param], weights->values[param],
                   stage->setting.model->params[param].count * sizeof *full);
        }
        size_t begin = bucket_shard_begin(bucket, stage_shard(stage, i));
        int rc = stage_write_shard(stage, i, STATE_PARAMETER, full + begin);
        free(full);
        TRY(rc);
    }
    return stage_regather(stage);
}

static int observe(void *context, const struct train_moment *moment)
{
    struct reference_run *run = context;
    if (run->weights && moment->step == 0)
        TRY(place_weights(run->weights, moment->stage));
    return reference_report_observe(run->report, moment);
}

// The divisor of the sum of all ranks' gradients: a step's micro-batches, which ranks share where sequences are cut, or
// the tokens of all micro-steps and ranks; 1 where there are none, as their sum of gradients is zero.
static double count_of_mean(void *context, int rank, uint64_t step)
{
    const struct reference_run *run = context;
    const struct check_case *c = &run->c;
    uint64_t sum = 0;
    (void)rank;
    if (!c->has_tokens)
        return (double)case_batches(c) * c->accumulation;
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int from = 0; from < c->world; from++)
            sum += case_rank_tokens(c, (int)step + run->before_steps, micro, from);
    return sum > 0 ? (double)sum : 1;
}

static int train(struct reference_run *run, const char *folder)
{
    const struct check_case *c = &run->c;
    const struct reference_options *options = run->options;
    const struct scripted_setting scripted = {
        .c = c, .folder = folder, .before_steps = run->before_steps, .keeps_seen = true};
    TRY(scripted_open(&scripted, &run->scripted));
    struct train_setting setting = {
        .config = &run->config.config,
        .model = scripted_model(run->scripted),
        .world = c->world,
        .comm = options->comm,
        .steps = (uint64_t)(case_last_step(c) - run->before_steps),
        .schedule = options->has_schedule
                        ? options->schedule
                        : (struct executor_schedule){c->overlap ? EXECUTOR_OVERLAP : EXECUTOR_SERIAL, 0},
        .threads = 1,
        .observe = observe,
        .observe_context = run,
        .mean_count = c->has_tokens || c->sequence > 1 ? count_of_mean : NULL,
        .mean_context = run,
    };
    if (config_uses_nvme(setting.config)) {
        setting.buffered = needs_page_cache(run->nvme_path);
        setting.swap_checksum = true;
    }
    if (c->phase != PHASE_WHOLE)
        TRY(open_checkpoints(run, &setting));
    TRY(reference_report_open(c, run->scripted, run->answer, run->before_steps, options->comm, &run->report));
    struct train_result result;
    int rc = train_run(&setting, &result);
    free(result.step_ns);
    TRY(rc);
    return reference_report_usage(run->report);
}

static void close_run(struct reference_run *run)
{
    reference_report_close(run->report);
    train_checkpoints_close(&run->checkpoints);
    weights_close(run->weights);
    scripted_close(run->scripted);
}

static const char *nvme_path_of(const struct reference_options *options, const char *state)
{
    const char *temporary = getenv("TMPDIR");
    return options->nvme_path ? options->nvme_path : state ? state : temporary && *temporary ? temporary : "/tmp";
}

static int answer(struct reference_run *run, const char *folder)
{
    bool unsupported;
    struct check_case *c = &run->c;
    TRY(case_read(folder, c));
    if (run->world > 0 && c->world != run->world)
        return err_set(ERR_USAGE, "is a case of world %d, in a run of world %d", c->world, run->world);
    TRY(file_make_folder(run->answer));
    run->nvme_path = nvme_path_of(run->options, run->state);
    bool anew = c->phase == PHASE_RESUME && c->weights_only;
    run->before_steps = anew ? c->checkpoint_step : 0;
    int rc = reference_config(c, run->options, run->nvme_path, run->before_steps, &run->config, &unsupported);
    // A valid configuration that is refused is one that the reference does not support.
    if (rc == ERR_USAGE && !is_first(run))
        return ERR_NONE;
    if (rc == ERR_USAGE)
        return answer_write_text(run->answer, unsupported || !c->expects_refusal ? ANSWER_UNSUPPORTED : ANSWER_REFUSED,
                                 err_message());
    TRY(rc);
    if (c->phase != PHASE_WHOLE)
        TRY(case_state_folder(c, run->state, run->store));
    if (reference_cuts_model(c) || (c->phase == PHASE_RESUME && mesh_has_checkpoint(c, run->store)))
        return is_first(run) ? mesh_answer(c, &run->config.config, folder, run->answer, run->store) : ERR_NONE;
    return train(run, folder);
}

int reference_answer(const struct reference_options *options, const char *case_folder, const char *answer_folder,
                     int world, const char *state)
{
    struct reference_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a case");
    run->options = options;
    run->answer = answer_folder;
    run->world = world;
    run->state = state;
    run->checkpoints.store.lock = -1;
    int rc = answer(run, case_folder);
    close_run(run);
    free(run);
    return rc;
}

static int answer_one(const struct reference_options *options, const char *cases, const char *answers, int world,
                      const char *state, const char *name)
{
    char folder[PATH_MAX], answer[PATH_MAX];
    TRY(file_join(cases, name, folder));
    TRY(file_join(answers, name, answer));
    return reference_answer(options, folder, answer, world, state);
}

int reference_answer_all(const struct reference_options *options, const char *cases, const char *answers, int world,
                         const char *state, bool progress)
{
    json_t *order;
    size_t failed = 0;
    TRY(case_order_of_world(cases, world, &order));
    size_t count = json_array_size(order);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(order, i));
        if (options->interrupted && *options->interrupted) {
            json_decref(order);
            return err_set(ERR_USAGE, "interrupted");
        }
        if (progress)
            terminal_progress("case %zu/%zu  %s", i + 1, count, name);
        int rc = answer_one(options, cases, answers, world, state, name);
        if (rc == ERR_NONE)
            continue;
        failed++;
        if (progress)
            terminal_progress("%s", "");
        text_error("zerogauge answer: %s", name);
        // An error ends the communication between processes.
        if (options->comm)
            break;
    }
    if (progress)
        terminal_progress("%s", "");
    json_decref(order);
    if (failed > 0 && options->comm)
        return err_set(ERR_CHECK, "the ranks stop at the first case without an answer");
    return failed == 0 ? ERR_NONE : err_set(ERR_CHECK, "%zu of %zu cases have no answer", failed, count);
}
