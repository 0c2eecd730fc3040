// SPDX-License-Identifier: Apache-2.0
// `zerogauge train`: the command line of training.
#include "ref/train/train_report.h"

#include "ref/train/device.h"
#include "base/err.h"
#include "base/file.h"
#include "base/process/interrupt.h"
#include "base/safe_text.h"
#include "base/slow.h"
#include "base/terminal.h"
#include "ref/train/train_checkpoint.h"
#include "ref/train/train_options.h"
#include "ref/checkpoint/weights.h"
#include "ref/model/names/model_find.h"
#include "ref/model/whole.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t interrupted;
static bool ended_early;

// A second Ctrl-C ends the program immediately. A second SIGTERM does not: mpirun sends several when it ends a job.
static void on_interrupt(int signal_number)
{
    interrupted = 1;
    if (signal_number == SIGINT)
        signal(signal_number, SIG_DFL);
}

static void show_progress(void *context, const struct train_progress *p)
{
    (void)context;
    terminal_progress("step %" PRIu64 "/%" PRIu64 "  %.0f s left  loss %.4f  %.0f tokens/s  lr %.2e  norm %.3g  "
                      "scale %g%s",
                      p->step, p->steps, p->eta_s, p->loss, p->tokens_per_s, p->lr, p->norm, p->scale,
                      p->skipped ? "  skipped" : "");
}

static void show_compared(void *context, uint64_t step, uint64_t steps)
{
    (void)context;
    terminal_progress("comparing with the unsharded run: step %" PRIu64 "/%" PRIu64, step, steps);
}

// The notes are lines.
static void print_notes(char *notes)
{
    for (char *rest = notes, *line; (line = strsep(&rest, "\n")) && *line;)
        text_say("zerogauge train: note: %s", line);
}

static int train_and_report(const struct train_options *a, const struct train_setting *setting)
{
    struct train_result result;
    int rc = train_run(setting, &result);
    if (setting->progress)
        terminal_progress("%s", "");
    bool prints = rc == ERR_NONE && a->launcher.rank == 0;
    if (prints && a->json)
        rc = train_print_json(setting, &result, stdout);
    else if (prints)
        train_print_table(setting, &result, stdout);
    if (rc == ERR_NONE && !train_passed(setting, &result))
        rc = result.difference.found
                 ? err_set(ERR_CHECK, "the run differs from unsharded %s", config_optimizer_name(setting->config))
                 : err_set(ERR_CHECK, "bytes held or moved differ from the formulas");
    else if (rc == ERR_NONE && (ended_early = result.interrupted))
        rc = err_set(ERR_USAGE, "interrupted after step %" PRIu64 " of %lld%s", result.steps, a->steps,
                     result.saved_step == result.steps ? "; --resume or --checkpoint continues from there" : "");
    free(result.step_ns);
    return rc;
}

// Every process but rank 0 has a file of its own.
static const char *trace_name(const struct train_options *a, char out[PATH_MAX])
{
    if (a->launcher.rank == 0)
        snprintf(out, PATH_MAX, "%s", a->trace);
    else
        snprintf(out, PATH_MAX, "%s.rank-%d", a->trace, a->launcher.rank);
    return out;
}

// The run with its timeline, which is written even if the run fails. The file is opened before the run.
static int train_traced(const struct train_options *a, struct train_setting *setting)
{
    if (!a->trace)
        return train_and_report(a, setting);
    char name[PATH_MAX];
    struct file_output file;
    int opened = file_output_open(trace_name(a, name), FILE_NEW, &file);
    if (opened != ERR_NONE)
        return err_prefix(opened, "--trace");
    struct trace trace;
    int rc = trace_open(setting->world, &trace);
    if (rc == ERR_NONE) {
        setting->trace = &trace;
        rc = train_and_report(a, setting);
    }
    char run_message[ERR_MESSAGE_BYTES], emulated[EMULATION_TEXT_BYTES];
    err_keep(run_message);
    int written = trace_write(&trace, emulation_text(&setting->emulation, emulated), file.out);
    written = file_output_close(&file, written);
    trace_close(&trace);
    if (written == ERR_NONE)
        return rc == ERR_NONE ? ERR_NONE : err_set(rc, "%s", run_message);
    err_prefix(written, "--trace %s", name);
    return rc == ERR_NONE ? written : err_set(rc, "%s; and %s", run_message, err_message());
}

// Inputs of a run: text, initial parameters, checkpoints; and the model as Muon sees it.
struct sources {
    struct model_whole *whole;
    struct text *text;
    struct weights *weights;
    struct train_checkpoints checkpoints;
};

static int find_model(const char *name, const struct config *config, const struct model **out)
{
    char shown[TEXT_MESSAGE_BYTES];
    const struct model_changes changes = {config->tiling_factor, config->sequence_parallel, config->lora};
    int rc = model_find_changed(name, &changes, out);
    if (rc != ERR_NONE && config->sequence_parallel)
        return err_prefix(rc, "\"zerogauge.sequence_parallel\"");
    if (rc != ERR_NONE && config->lora[0])
        return err_prefix(rc, "\"zerogauge.lora\" = %s", text_message(shown, config->lora, 100));
    return rc == ERR_NONE || config->tiling_factor == 1
               ? rc
               : err_prefix(rc, "\"zerogauge.tiling.factor\" = %zu", config->tiling_factor);
}

static int open_sources(const struct train_options *a, struct train_setting *setting, struct sources *sources)
{
    TRY(find_model(a->model ? a->model : TRAIN_MODEL_DEFAULT, setting->config, &setting->model));
    if (setting->config->uses_muon) {
        TRY(model_whole_open(setting->model, &sources->whole));
        setting->model = &sources->whole->model;
    }
    if (setting->model->wants_text)
        TRY(text_open(a->text_path, &sources->text));
    setting->text = sources->text;
    if (a->weights) {
        TRY(weights_open(a->weights, setting->model, &sources->weights));
        setting->model = &sources->weights->model;
    }
    const struct train_checkpoint_options options = {
        .save = a->save,
        .resume = a->resume,
        .checkpoint = a->checkpoint,
        .every = (uint64_t)a->every,
        .weights = sources->weights ? sources->weights->digest : NULL,
    };
    char notes[NOTES_BYTES];
    setting->checkpoints = &sources->checkpoints;
    int rc = train_checkpoints_open(&options, setting, &sources->checkpoints, notes);
    if (a->launcher.rank == 0)
        print_notes(notes);
    return rc;
}

static int run_with_sources(const struct train_options *a, struct train_setting *setting)
{
    struct sources sources = {.checkpoints.store.lock = -1};
    int rc = open_sources(a, setting, &sources);
    if (rc == ERR_NONE) {
        interrupt_watch(on_interrupt);  // until here there is nothing to save
        rc = train_traced(a, setting);
    }
    train_checkpoints_close(&sources.checkpoints);
    weights_close(sources.weights);
    model_whole_close(sources.whole);
    text_close(sources.text);
    return rc;
}

// As a rank of a launcher's world. An error of this rank before training aborts the others, too.
static int run_as_rank(const struct train_options *a, struct train_setting *setting)
{
    struct comm *comm = NULL;
    int rc = launcher_open(&a->launcher, &comm);
    if (rc == ERR_NONE) {
        rc = device_connect(setting, &comm);
        setting->comm = comm;
        if (rc == ERR_NONE)
            rc = run_with_sources(a, setting);
        if (rc != ERR_NONE)
            comm_abort(comm, err_message());
    }
    if (rc != ERR_NONE)
        launcher_tell("zerogauge train");
    launcher_close(comm, err_exit_status(rc));
    return rc;
}

static int run(const struct train_options *a, const struct config *config)
{
    struct train_setting setting;
    TRY(train_options_setting(a, &setting));
    setting.config = config;
    TRY(inject_check(&setting.inject, setting.world, setting.steps, config_uses_nvme(config)));
    setting.interrupted = &interrupted;
    if (a->launcher.rank == 0 && terminal_shows_progress()) {
        setting.progress = show_progress;
        setting.compared = show_compared;
    }
    return a->launcher.world > 0 ? run_as_rank(a, &setting) : run_with_sources(a, &setting);
}

// Prints a line for each option that the configuration makes meaningless.
static void print_unused(const struct train_options *a, const struct config *config, FILE *out)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {{"--nvme-path", a->nvme_path},
                   {"--engine", a->engine},
                   {"--nvme-space", a->nvme_space},
                   {"--buffered", a->buffered},
                   {"--no-swap-checksum", a->no_swap_checksum}};
    for (size_t i = 0; i < sizeof options / sizeof options[0] && !config_uses_nvme(config); i++)
        if (options[i].given)
            fprintf(out, "%s: accepted, but has no effect here: nothing is on NVMe\n", options[i].name);
    bool on_host = !a->device || strcmp(a->device, "cpu") == 0;
    if (a->products && strcmp(a->products, "bf16") == 0 && (config->precision != DTYPE_BF16 || !on_host))
        fprintf(out, "--products: accepted, but has no effect here: %s\n",
                on_host ? "the model is not in bf16" : "the device multiplies");
    if (a->products && strcmp(a->products, "cublas") == 0 && (config->precision != DTYPE_FP32 || on_host))
        fprintf(out, "--products: accepted, but has no effect here: %s\n",
                on_host ? "the host multiplies" : "cuBLAS makes all products of 16 bits");
}

static int train(int argc, const char **argv, struct train_options *a)
{
    static struct config_notes notes;
    struct config config;
    TRY(train_options_parse(argc, argv, a));
    TRY(train_options_config(a, &config, &notes));
    if (a->print_config) {
        config_print(&config, stdout);
        return ERR_NONE;
    }
    if (a->no_swap_checksum && config_uses_nvme(&config) && a->launcher.rank == 0)
        fprintf(stderr, "zerogauge train: --no-swap-checksum: data that changes on NVMe is not noticed\n");
    if (!a->json && a->launcher.rank == 0) {
        config_print_notes(&notes, stderr);
        print_unused(a, &config, stderr);
    }
    if (a->launcher.rank == 0)
        slow_print();
    return run(a, &config);
}

int train_main(int argc, const char **argv)
{
    struct train_options a;
    int rc = train(argc, argv, &a);
    if (rc != ERR_NONE && *err_message())
        text_error("zerogauge train");
    train_options_close(&a);
    return ended_early ? INTERRUPTED_STATUS : err_exit_status(rc);
}
