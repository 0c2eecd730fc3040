// SPDX-License-Identifier: Apache-2.0
// `zerogauge answer`: the reference, or a plug-in, as a command that the suite can run.
#include "conformance/reference/reference.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/file.h"
#include "base/help.h"
#include "ref/comm/launcher.h"
#include "conformance/contract/plugin.h"
#include "base/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer_options {
    char *recipe, *schedule, *clip_form, *moments, *master, *nvme_path, *plugin;
    int one, reduction_group;
    struct launcher launcher;
};

static const char arguments_text[] = "[OPTION...] CASES ANSWERS WORLD [STATE] | --case [OPTION...] CASE ANSWER [STATE]";

static const char *const examples[] = {
    "zerogauge answer --case cases/adam-basic.w2.s0.fp32 answer",
    "zerogauge answer cases answers 2 state",
    "zerogauge check --out report -- zerogauge answer --recipe torch-fused-cpu {cases} {answers} {world} {state}",
    "zerogauge check -- mpirun -n {world} zerogauge answer {cases} {answers} {world} {state}",
    NULL,
};

static const struct help help = {
    .usage = arguments_text,
    .text = "Answers the suite's cases with the reference or a plug-in: the cases of WORLD ranks in CASES/order.json, "
            "which "
            "`zerogauge check --write-cases CASES` writes. STATE is the folder of checkpoints, for cases that resume.",
    .examples = examples,
};

static int parse(int argc, const char **argv, struct answer_options *a, char *arguments[5], int *count)
{
    enum { TEXT = POPT_ARG_STRING, FLAG = POPT_ARG_NONE };
    const struct poptOption options[] = {
        {"case", '\0', FLAG, &a->one, 0, "answer one case: CASE ANSWER [STATE]", NULL},
        {"recipe", '\0', TEXT, &a->recipe, 0,
         "Adam's sequence of operations (default: torch-cpu); an unknown name lists all", "RECIPE"},
        {"clip-form", '\0', TEXT, &a->clip_form, 0, "form of the clip coefficient (default: torch)", "torch|deepspeed"},
        {"moments", '\0', TEXT, &a->moments, 0, "dtype in which moments are kept (default: fp32)",
         "fp32|bf16|fp16|precision"},
        {"master", '\0', TEXT, &a->master, 0, "dtype in which master parameters are kept (default: fp32)",
         "fp32|precision"},
        {"schedule", '\0', TEXT, &a->schedule, 0, "schedule of operations, also chaos:SEED (default: the case's hint)",
         "serial|overlap"},
        {"reduction-group", '\0', POPT_ARG_INT, &a->reduction_group, 0,
         "add ranks in groups of N neighbours, where N divides the world (default: canonical order)", "N"},
        {"nvme-path", '\0', TEXT, &a->nvme_path, 0, "folder of NVMe data (default: STATE, TMPDIR or /tmp)", "DIR"},
        {"plugin", '\0', TEXT, &a->plugin, 0, "answer by this shared object (contract.h) instead of the reference",
         "FILE"},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = help_options_end(context, argv, poptGetNextOpt(context));
    for (const char *next; rc == ERR_NONE && *count < 5 && (next = poptGetArg(context)) != NULL;)
        if (!(arguments[(*count)++] = strdup(next)))
            rc = err_set(ERR_MEMORY, "no memory for the arguments");
    poptFreeContext(context);
    return rc;
}

static int unknown_recipe(const char *name)
{
    char names[512] = "";
    for (int i = 0; recipe_at(i); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", recipe_name(recipe_at(i)));
    return err_set(ERR_USAGE, "--recipe %s: expected one of %s", name, names);
}

// The dtype of a state, by the same words as in claims.json.
static int read_dtype(const char *option, const char *text, bool is_master, enum claimed_dtype *out)
{
    static const char *const words[] = {"fp32", "bf16", "fp16", "precision"};
    for (int i = 0; text && i <= CLAIMED_PRECISION; i++)
        if (strcmp(text, words[i]) == 0 && (!is_master || i == CLAIMED_FP32 || i == CLAIMED_PRECISION)) {
            *out = (enum claimed_dtype)i;
            return ERR_NONE;
        }
    return text ? err_set(ERR_USAGE, "--%s %s: expected %s", option, text,
                          is_master ? "fp32 or precision" : "fp32, bf16, fp16 or precision")
                : ERR_NONE;
}

static int read_options(const struct answer_options *a, struct reference_options *out)
{
    *out = (struct reference_options){
        .recipe = a->recipe, .nvme_path = a->nvme_path, .clip_form = CLIP_TORCH, .reduction_group = a->reduction_group};
    if (a->reduction_group < 0 || a->reduction_group > CASE_WORLD_MAX)
        return err_set(ERR_USAGE, "--reduction-group %d: expected 1 to %d", a->reduction_group, CASE_WORLD_MAX);
    if (a->recipe && !recipe_find(a->recipe))
        return unknown_recipe(a->recipe);
    if (a->clip_form && strcmp(a->clip_form, "deepspeed") == 0)
        out->clip_form = CLIP_DEEPSPEED;
    else if (a->clip_form && strcmp(a->clip_form, "torch") != 0)
        return err_set(ERR_USAGE, "--clip-form %s: expected torch or deepspeed", a->clip_form);
    TRY(read_dtype("moments", a->moments, false, &out->states.moments));
    TRY(read_dtype("master", a->master, true, &out->states.master));
    if (!a->schedule)
        return ERR_NONE;
    out->has_schedule = true;
    return executor_schedule_parse(a->schedule, &out->schedule);
}

static int read_world(const char *text, int *out)
{
    char *end;
    long world = strtol(text, &end, 10);
    if (*end || end == text || world < 1 || world > CASE_WORLD_MAX)
        return err_set(ERR_USAGE, "WORLD is \"%s\", expected 1 to %d", text, CASE_WORLD_MAX);
    *out = (int)world;
    return ERR_NONE;
}

static int make_folders(const char *answers, const char *state)
{
    TRY(file_make_folder(answers));
    return state ? file_make_folder(state) : ERR_NONE;
}

static int answer_by_plugin(const struct answer_options *a, char *arguments[], const char *state)
{
    int world = 0;
    if (a->recipe || a->clip_form || a->moments || a->master || a->schedule || a->nvme_path || a->reduction_group)
        return err_set(ERR_USAGE,
                       "--plugin: --recipe, --clip-form, --moments, --master, --schedule, --reduction-group and "
                       "--nvme-path apply only to the reference");
    if (a->one)
        return plugin_answer_one(a->plugin, arguments[0], arguments[1], state);
    TRY(read_world(arguments[2], &world));
    TRY(make_folders(arguments[1], state));
    return plugin_answer(a->plugin, arguments[0], arguments[1], world, state);
}

static bool shows_progress(const struct answer_options *a)
{
    return a->launcher.rank == 0 && terminal_shows_progress();
}

static int answer_cases(struct answer_options *a, char *arguments[], int count)
{
    struct reference_options options;
    int world = 0, extra = a->one ? 2 : 3;
    if (count < extra || count > extra + 1)
        return err_set(ERR_USAGE, "expected %s", arguments_text);
    const char *state = count > extra ? arguments[extra] : NULL;
    if (a->plugin && a->launcher.world > 1)
        return err_set(ERR_USAGE, "--plugin runs in one process: start it without a launcher");
    if (a->plugin)
        return answer_by_plugin(a, arguments, state);
    TRY(read_options(a, &options));
    if (!a->one) {
        TRY(read_world(arguments[2], &world));
        TRY(make_folders(arguments[1], state));
    }
    // A process that was started alone answers a case of any world, in threads.
    if (a->one && a->launcher.world == 1)
        a->launcher = (struct launcher){0};
    TRY(launcher_world(&a->launcher, world, 0, &world));
    if (a->launcher.world > 0)
        TRY(launcher_open(&a->launcher, &options.comm));
    int rc = a->one ? reference_answer(&options, arguments[0], arguments[1], world, state)
                    : reference_answer_all(&options, arguments[0], arguments[1], world, state, shows_progress(a));
    if (options.comm && rc != ERR_NONE) {
        comm_abort(options.comm, err_message());
        launcher_tell("zerogauge answer");
    }
    launcher_close(options.comm, err_exit_status(rc));
    return rc;
}

int answer_main(int argc, const char **argv)
{
    struct answer_options a = {0};
    char *arguments[5] = {NULL};
    int count = 0, rc = parse(argc, argv, &a, arguments, &count);
    if (rc == ERR_NONE)
        rc = launcher_find(&a.launcher);
    if (rc == ERR_NONE)
        rc = answer_cases(&a, arguments, count);
    if (rc != ERR_NONE && *err_message())
        text_error("zerogauge answer");
    char *texts[] = {a.recipe, a.schedule, a.clip_form, a.moments, a.master, a.nvme_path, a.plugin};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    for (int i = 0; i < count; i++)
        free(arguments[i]);
    return err_exit_status(rc);
}
