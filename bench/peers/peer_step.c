// SPDX-License-Identifier: Apache-2.0
// Training steps in turn with a peer's. Both train one GPT or Llama in fp32 or bf16 from the same weights on the same
// text, rank for rank, in one run each, and take turns of some steps; the waiting side sleeps. peer_step_send.c tells
// the peer what to train. The answer to a turn has "step_ns" and "losses" of each step, the mean over ranks, and
// "resident_peak_bytes" (VmHWM) of the turn, the sum over ranks.
#include "bench/peers/bench_peer.h"
#include "bench/peers/peer_step.h"

#include "base/err.h"
#include "base/process/launch_watch.h"
#include "ref/model/names/model_find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURN_STEPS_MAX = 64, SET_MAX = 32 };

struct run {
    const struct peer_options *options;
    struct peer *peer;
    struct config config;
    struct mesh mesh;
    const struct model *model;
    struct text *text;
    struct executor_schedule schedule;
    size_t turn_steps, turns;
    double *losses;                      // [turns x turn_steps], ours; owned, with those below
    double *verified_losses;             // of the first turn, in a run compared with unsharded Adam
    double tolerance, worst;             // relative differences of a loss from the peer's: accepted, largest
    struct bench_samples ours, theirs;   // of all turns
    double peak_bytes, peer_peak_bytes;  // of the counted turns
    struct bench_samples gflops;         // of square matrix products
    struct train_result result;
};

static double median_ms(const double *ns, size_t count)
{
    return statistics_quantile(ns, count, 0.5) * 1e-6;
}

static int compare_losses(struct run *run, const json_t *losses, uint64_t first)
{
    for (size_t i = 0; i < run->turn_steps; i++) {
        double theirs = json_number_value(json_array_get(losses, i)), ours = run->losses[first + i];
        double apart = fabs(theirs - ours) / ours;
        if (!(apart <= run->tolerance))
            return err_set(ERR_CHECK, "%s: the loss of step %llu is %.9g, expected %.9g within %.3g of it",
                           run->peer->name, (unsigned long long)(first + i + 1), theirs, ours, run->tolerance);
        run->worst = apart > run->worst ? apart : run->worst;
    }
    return ERR_NONE;
}

// Runs the peer's turn after ours, whose last step was `step`.
static int peer_turn(struct run *run, uint64_t step)
{
    double ns[TURN_STEPS_MAX], sum = 0, peak_bytes = 0;
    json_t *answer;
    peer_pause();
    uint64_t begin_ns = clock_now_ns();
    TRY(peer_ask(run->peer, json_pack("{s:s, s:I}", "do", "run", "calls", (json_int_t)run->turn_steps), &answer));
    double elapsed_ns = (double)(clock_now_ns() - begin_ns);
    const json_t *times = json_object_get(answer, "step_ns");
    for (size_t i = 0; i < run->turn_steps; i++)
        sum += ns[i] = json_number_value(json_array_get(times, i));
    int code = compare_losses(run, json_object_get(answer, "losses"), step - run->turn_steps);
    if (code == ERR_NONE && (json_array_size(times) != run->turn_steps || sum <= 0 || sum > elapsed_ns))
        code = err_set(ERR_CHECK, "%s: %zu steps took %.0f ns by its own clock but %.0f by ours", run->peer->name,
                       run->turn_steps, sum, elapsed_ns);
    if (code == ERR_NONE)
        code = peer_number(run->peer, answer, "resident_peak_bytes", &peak_bytes);
    json_decref(answer);
    if (run->theirs.count >= run->options->shared.warmup)
        run->peer_peak_bytes = fmax(run->peer_peak_bytes, peak_bytes);
    run->theirs.values[run->theirs.count++] = median_ms(ns, run->turn_steps);
    peer_pause();
    return code;
}

// Called on every rank before the first step and after each one. At the end of our turn rank 0 runs the peer's, and the
// other ranks sleep.
static int observe(void *context, const struct train_moment *moment)
{
    struct run *run = context;
    size_t turn = moment->step / run->turn_steps;
    if (moment->step == 0 || moment->step % run->turn_steps != 0)
        return ERR_NONE;
    if (moment->rank == 0) {
        if (turn > run->options->shared.warmup)
            run->peak_bytes = fmax(run->peak_bytes, (double)process_peak(getpid()));
        bench_progress("step, compared with %s: turn %zu of %zu", run->peer->name, turn, run->turns);
        TRY(peer_turn(run, moment->step));
        TRY(process_peak_restart());
    }
    return comm_barrier(moment->stage->setting.comm);
}

static void keep_loss(void *context, const struct train_progress *progress)
{
    double *losses = context;
    losses[progress->step - 1] = progress->loss;
}

static struct train_setting setting_of(const struct run *run, size_t steps)
{
    return (struct train_setting){.config = &run->config,
                                  .model = run->model,
                                  .text = run->text,
                                  .world = run->options->world,
                                  .steps = steps,
                                  .seed = PEER_STEP_SEED,
                                  .schedule = run->schedule,
                                  .threads = peer_step_threads(run->options),
                                  .bf16_products = run->config.precision == DTYPE_BF16,
                                  .swap_checksum = true,
                                  .progress = keep_loss,
                                  .progress_context = run->losses};
}

// Trains the steps of one turn and compares every bit with unsharded Adam.
static int verify(struct run *run)
{
    struct train_setting setting = setting_of(run, run->turn_steps);
    struct train_result result;
    setting.verify = true;
    bench_progress("step: verifying %s", run->options->preset);
    int code = train_run(&setting, &result);
    free(result.step_ns);
    TRY(code);
    if (result.difference.found || !result.accounting_equal)
        return err_set(ERR_CHECK, "%s differs from unsharded Adam or from the formulas of bytes", run->options->preset);
    memcpy(run->verified_losses, run->losses, run->turn_steps * sizeof *run->losses);
    return ERR_NONE;
}

static int measure(struct run *run)
{
    struct train_setting setting = setting_of(run, run->turns * run->turn_steps);
    setting.observe = observe;
    setting.observe_context = run;
    TRY(verify(run));
    const struct peer_step_start start = {run->options, &run->config,    &run->mesh, run->model,
                                          run->text,    run->turn_steps, run->turns};
    TRY(peer_step_multiply(&start, &run->gflops));
    TRY(peer_step_send(&start, run->peer));
    TRY(train_run(&setting, &run->result));
    TRY(peer_step_multiply(&start, &run->gflops));
    if (memcmp(run->losses, run->verified_losses, run->turn_steps * sizeof *run->losses) != 0)
        return err_set(ERR_CHECK, "%s: the losses of the timed run differ from those of the verified run",
                       run->options->preset);
    for (size_t turn = 0; turn < run->turns; turn++) {
        double ns[TURN_STEPS_MAX];
        for (size_t i = 0; i < run->turn_steps; i++)
            ns[i] = (double)run->result.step_ns[turn * run->turn_steps + i];
        run->ours.values[run->ours.count++] = median_ms(ns, run->turn_steps);
    }
    return ERR_NONE;
}

static void drop_warmup(struct bench_samples *samples, size_t warmup)
{
    samples->count -= warmup;
    memmove(samples->values, samples->values + warmup, samples->count * sizeof *samples->values);
}

static int print(struct run *run, uint64_t begin_ns)
{
    const struct peer_options *options = run->options;
    drop_warmup(&run->ours, options->shared.warmup);
    drop_warmup(&run->theirs, options->shared.warmup);
    const struct peer_step_start start = {.options = options, .config = &run->config, .model = run->model};
    const struct peer_step_side ours = {&run->ours, run->peak_bytes}, theirs = {&run->theirs, run->peer_peak_bytes};
    struct bench_record record = {
        .name = "peer",
        .description =
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:s*}", "part", "step", "peer",
                      options->label ? options->label : run->peer->name, "preset", options->preset, "model",
                      run->model->name, "dtype", dtype_name(run->config.precision), "world", options->world,
                      "threads_a_rank", peer_step_threads(options), "sequences_a_rank",
                      (json_int_t)run->config.micro_batch, "sequence_tokens", (json_int_t)run->model->sequence_length,
                      "mesh", run->mesh.replicate > 1 ? mesh_text(&run->mesh, (char[MESH_TEXT_BYTES]){0}) : NULL),
        .detail = json_pack("{s:I, s:f, s:f, s:o}", "losses_compared", (json_int_t)(run->turns * run->turn_steps),
                            "most_loss_difference", run->worst, "accepted_loss_difference", run->tolerance, "figures",
                            peer_step_figures(&start, &run->gflops, &ours, &theirs)),
        .unit = "ms_per_step",
        .lower_is_better = true,
        .items = 1,
        .begin_ns = begin_ns,
        .samples = &run->ours,
        .baseline_name = run->peer->name,
        .baseline = &run->theirs};
    return bench_print(&options->shared, &record);
}

static int load(const struct peer_options *options, struct config *out)
{
    bool bf16 = options->dtype && strcmp(options->dtype, "bf16") == 0;
    if (options->dtype && !bf16 && strcmp(options->dtype, "fp32") != 0)
        return err_set(ERR_USAGE, "--dtype %.32s: expected fp32 or bf16", options->dtype);
    const char *set[SET_MAX] = {bf16 ? "bf16.enabled=true" : "bf16.enabled=false"};
    size_t count = 1;
    for (int i = 0; options->set && options->set[i] && count < SET_MAX; i++)
        set[count++] = options->set[i];
    struct config_options loaded = {.world = options->world, .set = set, .set_count = count};
    loaded.nvme_paths = options->shared.storage.paths;
    loaded.nvme_path_count = (size_t)options->shared.storage.path_count;
    TRY(config_load_preset(options->preset, &loaded, out, NULL));
    return out->accumulation == 1 ? ERR_NONE : err_set(ERR_USAGE, "--set: peers support one micro-step per step only");
}

static int complete(struct run *run)
{
    const struct peer_options *options = run->options;
    run->turn_steps = (size_t)options->steps;
    run->turns = options->shared.warmup + options->shared.repeat;
    TRY(load(options, &run->config));
    run->mesh = config_mesh(&run->config, options->world);
    run->tolerance = options->tolerance > 0                ? options->tolerance
                     : run->config.precision == DTYPE_FP32 ? PEER_LOSS_TOLERANCE
                                                           : PEER_LOSS_TOLERANCE_BF16;
    if (mesh_parts(&run->mesh) > 1 || run->mesh.expert > 1)
        return err_set(ERR_USAGE, "--set: peers support meshes of replicate and shard alone");
    TRY(model_find(options->model ? options->model : "gpt-3m", &run->model));
    if (!run->model->wants_text)
        return err_set(ERR_USAGE, "--model %s: expected a GPT or a Llama", options->model);
    TRY(executor_schedule_parse(options->schedule ? options->schedule : "serial", &run->schedule));
    TRY(text_open(NULL, &run->text));
    run->losses = calloc((run->turns + 1) * run->turn_steps, sizeof *run->losses);
    if (!run->losses)
        return err_set(ERR_MEMORY, "no memory for the losses");
    run->verified_losses = run->losses + run->turns * run->turn_steps;
    return ERR_NONE;
}

int peer_step(const struct peer_options *given, struct peer *peer)
{
    struct peer_options options = *given;
    options.steps = options.steps > 0 ? options.steps : 5;
    options.preset = options.preset ? options.preset : (char *)(uintptr_t) "zero0";
    bench_default_repeat(&options.shared, 7, 3, 1);
    if (options.steps > TURN_STEPS_MAX)
        return err_set(ERR_USAGE, "--steps %d: at most %d", options.steps, TURN_STEPS_MAX);
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a run");
    run->options = &options;
    run->peer = peer;
    uint64_t begin_ns = clock_now_ns();
    int code = complete(run);
    if (code == ERR_NONE)
        code = measure(run);
    if (code == ERR_NONE)
        code = print(run, begin_ns);
    text_close(run->text);
    free(run->result.step_ns);
    free(run->losses);
    free(run);
    return code;
}
