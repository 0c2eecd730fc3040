// SPDX-License-Identifier: Apache-2.0
// `zerogauge train`: the command line of training.
#include "train_report.h"

#include "err.h"
#include "size.h"

#include <inttypes.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORLD_MAX = 1024 };

struct arguments {
    char *preset, *config_path, *model, *schedule, *text_path, *device_memory;
    char **set;
    int world, threads;
    long long steps, seed;
    int verify, json, print_config;
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
        {"preset", 'p', TEXT, &a->preset, 0, "a configuration that comes with the program: zero0 to zero3", "NAME"},
        {"config", 'c', TEXT, &a->config_path, 0, "a DeepSpeed JSON configuration", "FILE"},
        {"set", '\0', POPT_ARG_ARGV, &a->set, 0, "override a key of the configuration", "PATH.TO.KEY=VALUE"},
        {"world", 'w', INT, &a->world, 0, "ranks, as threads", "N"},
        {"model", 'm', TEXT, &a->model, 0, "gpt-tiny, unless given; an unknown name lists all", "NAME"},
        {"steps", 's', LONG, &a->steps, 0, "optimizer steps, skipped ones included", "N"},
        {"seed", '\0', LONG, &a->seed, 0, "of parameters and samples", "N"},
        {"schedule", '\0', TEXT, &a->schedule, 0, "overlap, unless given; serial; chaos:SEED", "HOW"},
        {"text", '\0', TEXT, &a->text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        {"device-memory", '\0', TEXT, &a->device_memory, 0, "refuse to hold more than this a rank", "SIZE"},
        {"threads", '\0', POPT_ARG_INT, &a->threads, 0, "a rank's threads for the optimizer (cores / ranks)", "N"},
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
    return ERR_NONE;
}

static int load_config(const struct arguments *a, struct config *config, struct config_notes *notes)
{
    size_t set_count = 0;
    while (a->set && a->set[set_count])
        set_count++;
    const struct config_options options = {
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .set = (const char *const *)a->set,
        .set_count = set_count,
    };
    return a->preset ? config_load_preset(a->preset, &options, config, notes)
                     : config_load_file(a->config_path, &options, config, notes);
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

static int run(const struct arguments *a, const struct config *config)
{
    struct train_setting setting = {
        .config = config,
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .seed = (uint64_t)a->seed,
        .threads = a->threads,
        .verify = a->verify,
        .interrupted = &interrupted,
    };
    TRY(model_find_tiled(a->model ? a->model : "gpt-tiny", config->tiling_factor, &setting.model));
    TRY(flow_schedule_parse(a->schedule ? a->schedule : "overlap", &setting.schedule));
    if (a->device_memory)
        TRY(size_parse(a->device_memory, &setting.device_memory_bytes));
    if (isatty(STDERR_FILENO))
        setting.progress = show_progress;
    struct text *text = NULL;
    if (setting.model->wants_text)
        TRY(text_open(a->text_path, &text));
    setting.text = text;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);

    struct train_result result;
    int rc = train_run(&setting, &result);
    if (rc == ERR_NONE && a->json)
        rc = train_print_json(&setting, &result, stdout);
    else if (rc == ERR_NONE)
        train_print_table(&setting, &result, stdout);
    if (rc == ERR_NONE && !train_passed(&setting, &result))
        rc = err_set(ERR_CHECK, result.difference.found ? "the run differs from unsharded Adam"
                                                        : "bytes held or moved differ from the formulas");
    else if (rc == ERR_NONE && result.interrupted)
        rc = err_set(ERR_USAGE, "interrupted after step %" PRIu64 " of %lld", result.steps, a->steps);
    free(result.step_ns);
    text_close(text);
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
    if (!a->json)
        config_print_notes(&notes, stderr);
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
    for (char **value = a.set; value && *value; value++)
        free(*value);
    free(a.set);
    return err_exit_status(rc);
}
