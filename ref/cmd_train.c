// SPDX-License-Identifier: Apache-2.0
// `zerogauge train`: the command line of training.
#include "train_report.h"

#include "err.h"
#include "size.h"
#include "train_checkpoint.h"
#include "weights.h"

#include <inttypes.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORLD_MAX = 1024 };

struct arguments {
    char *preset, *config_path, *model, *schedule, *text_path, *device_memory;
    char *host_memory, *nvme_space, *engine, *emulate, *trace, *inject;
    char **set, **nvme_path;
    char *save, *resume, *checkpoint, *weights;
    int world, threads;
    long long steps, seed, every;
    int verify, json, print_config;
    int buffered, no_swap_checksum;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
    signal(SIGINT, SIG_DFL);  // a second one ends the program at once
}

static int parse(int argc, const char **argv, struct arguments *a)
{
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT | POPT_ARGFLAG_SHOW_DEFAULT };
    enum { LONG = POPT_ARG_LONGLONG | POPT_ARGFLAG_SHOW_DEFAULT, FLAG = POPT_ARG_NONE };
    const struct poptOption options[] = {
        {"preset", 'p', TEXT, &a->preset, 0, "a configuration that comes with the program", "NAME"},
        {"config", 'c', TEXT, &a->config_path, 0, "a DeepSpeed JSON configuration", "FILE"},
        {"set", '\0', POPT_ARG_ARGV, &a->set, 0, "override a key of the configuration", "PATH.TO.KEY=VALUE"},
        {"world", 'w', INT, &a->world, 0, "ranks, as threads", "N"},
        {"model", 'm', TEXT, &a->model, 0, "gpt-tiny, unless given; an unknown name lists all", "NAME"},
        {"steps", 's', LONG, &a->steps, 0, "optimizer steps, skipped ones included", "N"},
        {"seed", '\0', LONG, &a->seed, 0, "of parameters and samples", "N"},
        {"schedule", '\0', TEXT, &a->schedule, 0, "overlap, unless given; serial; chaos:SEED", "HOW"},
        {"text", '\0', TEXT, &a->text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        {"device-memory", '\0', TEXT, &a->device_memory, 0, "refuse to hold more than this a rank", "SIZE"},
        {"host-memory", '\0', TEXT, &a->host_memory, 0, "the same of the host's memory", "SIZE"},
        {"nvme-space", '\0', TEXT, &a->nvme_space, 0, "the same of the disks", "SIZE"},
        {"nvme-path", '\0', POPT_ARG_ARGV, &a->nvme_path, 0, "where what is on NVMe goes; several are striped", "DIR"},
        {"engine", '\0', TEXT, &a->engine, 0, "libaio or io_uring, in place of the configuration's", "NAME"},
        {"buffered", '\0', FLAG, &a->buffered, 0, "allow NVMe without O_DIRECT, and mark the result", NULL},
        {"no-swap-checksum", '\0', FLAG, &a->no_swap_checksum, 0, "do not check what comes back from NVMe", NULL},
        {"emulate", '\0', TEXT, &a->emulate, 0, "throttle lanes, in GB/s: h2d=12,d2h=12,nvme-read=3.2", "LIST"},
        {"inject", '\0', TEXT, &a->inject, 0, "provoke faults: nvme:eio@K, nvme:flip@K, rank:R:die@STEP, ...", "LIST"},
        {"trace", '\0', TEXT, &a->trace, 0, "write a timeline for Chrome or Perfetto", "FILE"},
        {"threads", '\0', POPT_ARG_INT, &a->threads, 0, "a rank's threads for the optimizer (cores / ranks)", "N"},
        {"save", '\0', TEXT, &a->save, 0, "save a checkpoint there at the end, and when interrupted", "DIR"},
        {"every", '\0', POPT_ARG_LONGLONG, &a->every, 0, "and after every so many steps", "N"},
        {"resume", '\0', TEXT, &a->resume, 0, "continue from the newest checkpoint there, or from this one", "DIR"},
        {"checkpoint", '\0', TEXT, &a->checkpoint, 0, "both: save there, and continue if there is one", "DIR"},
        {"load-weights", '\0', TEXT, &a->weights, 0, "begin with the parameters in this safetensors file", "FILE"},
        {"verify", '\0', FLAG, &a->verify, 0, "compare every bit with unsharded Adam after every step", NULL},
        {"json", '\0', FLAG, &a->json, 0, "print the result as one line of JSON", NULL},
        {"print-config", '\0', FLAG, &a->print_config, 0, "print the effective configuration and stop", NULL},
        POPT_AUTOHELP POPT_TABLEEND,
    };
    const char *named[argc + 1];  // popt calls the program by its first argument
    memcpy(named, argv, (size_t)argc * sizeof *named);
    named[0] = "zerogauge train";
    named[argc] = NULL;
    poptContext context = poptGetContext(NULL, argc, named, options, 0);
    poptSetOtherOptionHelp(context, "(--preset NAME | --config FILE) [OPTION...]");
    int rc = ERR_NONE, code = poptGetNextOpt(context);
    const char *extra = poptPeekArg(context);
    if (code < -1)
        rc = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    else if (extra)
        rc = err_set(ERR_USAGE, "\"%s\" is not an option; `zerogauge train --help` lists them", extra);
    poptFreeContext(context);
    return rc;
}

static int check(const struct arguments *a)
{
    if (!a->preset == !a->config_path)
        return err_set(ERR_USAGE, "give one of --preset NAME and --config FILE");
    if (a->world < 1 || a->world > WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", a->world, WORLD_MAX);
    if (a->steps < 1)
        return err_set(ERR_USAGE, "--steps %lld: expected at least 1", a->steps);
    if (a->seed < 0)
        return err_set(ERR_USAGE, "--seed %lld: expected 0 or more", a->seed);
    if (a->threads < 0)
        return err_set(ERR_USAGE, "--threads %d: expected 1 or more", a->threads);
    if (a->trace && !*a->trace)
        return err_set(ERR_USAGE, "--trace: expected the name of a file");
    if (a->checkpoint && (a->save || a->resume))
        return err_set(ERR_USAGE, "--checkpoint DIR is --save and --resume in one: give it alone");
    if (a->every < 0)
        return err_set(ERR_USAGE, "--every %lld: expected 1 or more", a->every);
    if (a->every && !a->save && !a->checkpoint)
        return err_set(ERR_USAGE, "--every %lld: give --save DIR or --checkpoint DIR, too", a->every);
    return ERR_NONE;
}

static size_t list_length(char *const *list)
{
    size_t length = 0;
    while (list && list[length])
        length++;
    return length;
}

static void list_free(char **list)
{
    for (char **value = list; value && *value; value++)
        free(*value);
    free(list);
}

// A budget; it stays 0, which is none, where the option is not given.
static int parse_budget(const char *option, const char *text, uint64_t *out)
{
    if (!text)
        return ERR_NONE;
    int rc = size_parse(text, out);
    if (rc != ERR_NONE)
        return err_prefix(rc, "%s", option);
    return *out > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s %s: expected more than 0 bytes", option, text);
}

static int load_config(const struct arguments *a, struct config *config, struct config_notes *notes)
{
    const struct config_options options = {
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .set = (const char *const *)a->set,
        .set_count = list_length(a->set),
        .nvme_paths = (const char *const *)a->nvme_path,
        .nvme_path_count = list_length(a->nvme_path),
        .engine = a->engine,
    };
    return a->preset ? config_load_preset(a->preset, &options, config, notes)
                     : config_load_file(a->config_path, &options, config, notes);
}

// Options that have no meaning beside the configuration.
static void print_unused_options(const struct arguments *a, const struct config *config)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {{"--nvme-path", a->nvme_path}, {"--engine", a->engine}, {"--nvme-space", a->nvme_space},
                   {"--buffered", a->buffered}, {"--no-swap-checksum", a->no_swap_checksum}};
    for (size_t i = 0; i < sizeof options / sizeof options[0] && !config_uses_nvme(config); i++)
        if (options[i].given)
            fprintf(stderr, "%s: accepted, without meaning here: nothing is on NVMe\n", options[i].name);
}

static void show_progress(void *context, const struct train_progress *p)
{
    (void)context;
    fprintf(stderr,
            "\r\033[Kstep %" PRIu64 "/%" PRIu64 "  loss %.4f  lr %.2e  norm %.3g  scale %g  %.0f tokens/s"
            "  %.0f s left%s",
            p->step, p->steps, p->loss, p->lr, p->norm, p->scale, p->tokens_per_s, p->eta_s,
            p->skipped ? "  skipped" : "");
    if (p->step == p->steps)
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

// Prints what the notes say, a line each.
static void print_notes(char *notes)
{
    for (char *rest = notes, *line; (line = strsep(&rest, "\n")) && *line;)
        fprintf(stderr, "zerogauge train: note: %s\n", line);
}

static int train_and_report(const struct arguments *a, const struct train_setting *setting)
{
    struct train_result result;
    int rc = train_run(setting, &result);
    if (rc == ERR_NONE && a->json)
        rc = train_print_json(setting, &result, stdout);
    else if (rc == ERR_NONE)
        train_print_table(setting, &result, stdout);
    if (rc == ERR_NONE && !train_passed(setting, &result))
        rc = err_set(ERR_CHECK, result.difference.found ? "the run differs from unsharded Adam"
                                                        : "bytes held or moved differ from the formulas");
    else if (rc == ERR_NONE && result.interrupted)
        rc = err_set(ERR_USAGE, "interrupted after step %" PRIu64 " of %lld%s", result.steps, a->steps,
                     result.saved_step == result.steps ? "; --resume or --checkpoint continues from there" : "");
    free(result.step_ns);
    return rc;
}

// What a run needs from outside: text, initial parameters, checkpoints.
struct sources {
    struct text *text;
    struct weights *weights;
    struct train_checkpoints checkpoints;
};

static int find_model(const char *name, size_t tiling_factor, const struct model **out)
{
    int rc = model_find_tiled(name, tiling_factor, out);
    return rc == ERR_NONE || tiling_factor == 1 ? rc
                                                : err_prefix(rc, "\"zerogauge.tiling.factor\" = %zu", tiling_factor);
}

static int open_sources(const struct arguments *a, struct train_setting *setting, struct sources *sources)
{
    TRY(find_model(a->model ? a->model : "gpt-tiny", setting->config->tiling_factor, &setting->model));
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
    print_notes(notes);
    return rc;
}

static int run(const struct arguments *a, const struct config *config)
{
    struct train_setting setting = {
        .config = config,
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .seed = (uint64_t)a->seed,
        .threads = a->threads,
        .verify = a->verify,
        .buffered = a->buffered,
        .swap_checksum = !a->no_swap_checksum,
        .trace_path = a->trace,
        .interrupted = &interrupted,
    };
    TRY(flow_schedule_parse(a->schedule ? a->schedule : "overlap", &setting.schedule));
    TRY(parse_budget("--device-memory", a->device_memory, &setting.device_memory_bytes));
    TRY(parse_budget("--host-memory", a->host_memory, &setting.host_memory_bytes));
    TRY(parse_budget("--nvme-space", a->nvme_space, &setting.nvme_space_bytes));
    if (a->emulate)
        TRY(emulation_parse(a->emulate, &setting.emulation));
    if (a->inject)
        TRY(inject_parse(a->inject, &setting.inject));
    if (isatty(STDERR_FILENO))
        setting.progress = show_progress;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    struct sources sources = {.checkpoints.store.lock = -1};
    int rc = open_sources(a, &setting, &sources);
    if (rc == ERR_NONE)
        rc = train_and_report(a, &setting);
    train_checkpoints_close(&sources.checkpoints);
    weights_close(sources.weights);
    text_close(sources.text);
    return rc;
}

static int train(int argc, const char **argv, struct arguments *a)
{
    static struct config_notes notes;
    struct config config;
    TRY(parse(argc, argv, a));
    TRY(check(a));
    TRY(load_config(a, &config, &notes));
    if (a->print_config) {
        config_print(&config, stdout);
        return ERR_NONE;
    }
    if (!a->json) {
        config_print_notes(&notes, stderr);
        print_unused_options(a, &config);
    }
    return run(a, &config);
}

int train_main(int argc, const char **argv)
{
    struct arguments a = {
        .world = 2,
        .steps = 100,
        .seed = 1,
    };
    int rc = train(argc, argv, &a);
    if (rc != ERR_NONE)
        fprintf(stderr, "zerogauge train: %s\n", err_message());
    free(a.preset);
    free(a.config_path);
    free(a.model);
    free(a.schedule);
    free(a.text_path);
    free(a.device_memory);
    free(a.host_memory);
    free(a.nvme_space);
    free(a.engine);
    free(a.emulate);
    free(a.inject);
    free(a.trace);
    list_free(a.set);
    list_free(a.nvme_path);
    free(a.save);
    free(a.resume);
    free(a.checkpoint);
    free(a.weights);
    return err_exit_status(rc);
}
