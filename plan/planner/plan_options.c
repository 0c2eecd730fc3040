// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_options.h"

#include "base/err.h"
#include "base/help.h"
#include "plan/planner/plan_degrees.h"
#include "plan/planner/plan_model.h"
#include "ref/model/gpt.h"

#include <stdlib.h>
#include <string.h>

static const char *const examples[] = {
    "zerogauge plan --preset zero3 --model llama-70b --world 64",
    "zerogauge plan --paper zero-table-1",
    "zerogauge plan --config ds.json --model gpt-1t --world 1024 --machine dgx-2 --explain",
    "zerogauge plan --preset zero1 --model gpt3-175b --mesh tensor=8,pipeline=4,shard=16",
    "zerogauge plan --preset zero3 --model llama-8b --machine workstation --search --write found.json",
    "zerogauge plan --preset zero3 --model llama-70b --machine dgx-h100 --search --goal smallest",
    NULL,
};

static const struct help help = {
    .usage = "(--preset PRESET | --config FILE | --paper | --throughput) [OPTION...]",
    .text = "Predicts the memory, traffic and time of training any model on any number of ranks: the stages themselves "
            "run without data on a virtual clock. Exit status: 0 also for a plan that does not fit; with --search, 1 "
            "if nothing fits.",
    .examples = examples,
};

static int parse(int argc, const char **argv, struct plan_options *a)
{
    enum { TEXT = POPT_ARG_STRING, FLAG = POPT_ARG_NONE };
    struct poptOption what[] = {
        {"preset", 'p', TEXT, &a->preset, 0,
         "a built-in configuration, here with DeepSpeed's default sizes of buckets and sub-groups", "PRESET"},
        {"config", 'c', TEXT, &a->config_path, 0, "a configuration: DeepSpeed's, Accelerate's or a trainer's", "FILE"},
        {"set", '\0', POPT_ARG_ARGV, &a->set, 0, "override a key of the configuration; repeatable",
         "PATH.TO.KEY=VALUE"},
        {"model", 'm', TEXT, &a->model, 0, "the model (default: llama-8b); an unknown name lists all",
         "MODEL|SHAPE|FILE"},
        {"sequences", '\0', POPT_ARG_LONGLONG, &a->sequences, HELP_ABOVE_ZERO, "sequences of a rank in each micro-step",
         "N"},
        {"sequence-length", '\0', POPT_ARG_LONGLONG, &a->sequence_length, HELP_ABOVE_ZERO,
         "tokens of a sequence (default: the model's)", "TOKENS"},
        {"lora", '\0', POPT_ARG_LONGLONG, &a->lora_rank, HELP_ABOVE_ZERO,
         "train adapters of this rank at every matrix of the blocks, with all other weights frozen", "RANK"},
        {"checkpointed", '\0', POPT_ARG_DOUBLE, &a->checkpointed, HELP_ABOVE_ZERO,
         "the part of the blocks that have activation checkpoints, above 0 and up to 1 (default: all or none, as the "
         "configuration says)",
         "SHARE"},
        {"framework", '\0', TEXT, &a->framework, 0,
         "whose memory on GPUs is counted: deepspeed, fsdp2, hf, torchtune, megatron (default: by the configuration)",
         "NAME"},
        {"logits", '\0', TEXT, &a->logits, 0,
         "how its loss holds logits: hf, shifted, fp32, 16bit, chunked, fused (default: the framework's)", "KIND"},
        {"weights", '\0', TEXT, &a->weights, 0,
         "mixed (default: with fp32 masters), 16bit (without), or nf4 with --lora (QLoRA)", "DTYPE"},
        {"moments", '\0', TEXT, &a->moments, 0, "of the optimizer: as the weights that it updates (default), or 8bit",
         "DTYPE"},
        {"products", '\0', TEXT, &a->products, 0, "of the blocks: as the weights (default), or fp8", "DTYPE"},
        POPT_TABLEEND,
    };
    struct poptOption where[] = {
        {"world", 'w', POPT_ARG_INT, &a->world, HELP_ABOVE_ZERO, "ranks, one per device (default: one node)", "N"},
        {"mesh", '\0', TEXT, &a->mesh, 0,
         "ranks on a mesh, as in train, context=C, which divides each sequence, and expert_tensor=1 (whole experts); "
         "their number, unless --world is "
         "given",
         "DEGREE=N,..."},
        {"interleave", '\0', POPT_ARG_INT, &a->choice.interleave, HELP_ABOVE_ZERO,
         "parts of each stage of a pipeline, which take turns (Megatron-LM's virtual pipeline; default: 1)", "PARTS"},
        {"worlds", '\0', TEXT, &a->world_list, 0, "worlds to search, with the same sequences in a step", "N,N,..."},
        {"machine", '\0', TEXT, &a->machine, 0,
         "the machine (default: dgx-h100); an unknown name lists all; a search takes several, each with its price: "
         "l40s=1.2,dgx-h100=2.8",
         "MACHINE|FILE"},
        {"device-memory", '\0', POPT_ARG_DOUBLE, &a->device_memory_gib, HELP_ABOVE_ZERO,
         "memory of a device, in place of the machine's", "GIB"},
        {"host-memory", '\0', POPT_ARG_DOUBLE, &a->host_memory_gib, HELP_ABOVE_ZERO,
         "memory of a node, in place of the machine's", "GIB"},
        {"price", '\0', POPT_ARG_DOUBLE, &a->price, HELP_ABOVE_ZERO,
         "of a device and hour: print what a million tokens cost", "PRICE"},
        {"tokens", '\0', TEXT, &a->token_text, 0, "to train on (15B, 1T): print the days, and with --price the cost",
         "N"},
        {"days", '\0', POPT_ARG_DOUBLE, &a->days, HELP_ABOVE_ZERO,
         "the most that they may take; a search leaves out what is slower", "DAYS"},
        POPT_TABLEEND,
    };
    struct poptOption out[] = {
        {"search", '\0', FLAG, &a->search, 0,
         "list the placements and batches that fit, with the same number of sequences in a step, the best first", NULL},
        {"goal", '\0', TEXT, &a->goal_name, 0,
         "what the search looks for: fastest (default), smallest world, cheapest tokens, longest sequence", "GOAL"},
        {"tight", '\0', FLAG, &a->tight, 0,
         "also list what fits only if allocators add less than they have at most, and take it as advice", NULL},
        {"write", '\0', TEXT, &a->write, 0, "write the planned configuration, or the first one found, to a new file",
         "FILE"},
        {"explain", '\0', FLAG, &a->explain, 0, "print the formula or source of every number", NULL},
        {"json", '\0', FLAG, &a->json, 0, "print one line of JSON; with --search, one per configuration", NULL},
        {"against", '\0', TEXT, &a->against, 0, "compare planned with measured step times of a result file of validate",
         "FILE"},
        {"paper", '\0', TEXT | POPT_ARGFLAG_OPTIONAL, &a->paper, 'P',
         "compare the papers' tables, cell by cell, with the stages and the papers' own equations, and list known "
         "errata; NAME selects tables by the start of their names; exit status 1: a cell differs and is no erratum",
         "NAME"},
        {"throughput", '\0', TEXT | POPT_ARGFLAG_OPTIONAL, &a->throughput, 'T',
         "plan published runs (datasets/throughput.json) and print predicted next to published tokens/s; NAME selects "
         "sources by the start of their names",
         "NAME|FILE"},
        {"memory", '\0', TEXT | POPT_ARGFLAG_OPTIONAL, &a->memory, 'M',
         "plan runs whose memory is published (datasets/memory.json): peaks, and what fitted or did not", "NAME|FILE"},
        POPT_TABLEEND,
    };
    const struct poptOption options[] = {
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, what, 0, "Training:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, where, 0, "Machine:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, out, 0, "Output:", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code, rc = ERR_NONE;
    while ((code = help_next(context, options)) > 0) {
        a->papers |= code == 'P';
        a->throughputs |= code == 'T';
        a->memories |= code == 'M';
    }
    // popt takes an optional argument only after '='; here it may also be the next word.
    char **name = a->papers ? &a->paper : a->throughputs ? &a->throughput : a->memories ? &a->memory : NULL;
    if (name && !*name && poptPeekArg(context) && !(*name = strdup(poptGetArg(context))))
        rc = err_set(ERR_MEMORY, "no memory for options");
    if (rc == ERR_NONE)
        rc = help_no_arguments(context, argv, code);
    poptFreeContext(context);
    return rc;
}

static int read_worlds(struct plan_options *a)
{
    const char *rest = a->world_list;
    while (rest) {
        char *end;
        long world = strtol(rest, &end, 10);
        if (end == rest || (*end && *end != ',') || world < 1 || world > PLAN_RANKS_MAX)
            return err_set(ERR_USAGE, "--worlds %s: expected numbers from 1 to %d with commas between them",
                           a->world_list, PLAN_RANKS_MAX);
        if (a->world_count == PLAN_WORLD_MAX)
            return err_set(ERR_USAGE, "--worlds %s: expected at most %d numbers", a->world_list, PLAN_WORLD_MAX);
        a->worlds[a->world_count++] = (int)world;
        rest = *end ? end + 1 : NULL;
    }
    return ERR_NONE;
}

static int read_tokens(struct plan_options *a)
{
    static const char units[] = "KMBT";
    char *end = a->token_text;
    if (!a->token_text)
        return a->days == 0 ? ERR_NONE : err_set(ERR_USAGE, "--days needs --tokens N");
    a->tokens = strtod(a->token_text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        a->tokens *= 1000;
    if (end == a->token_text || (*end && (!unit || end[1])) || !(a->tokens >= 1 && a->tokens < 1e18))
        return err_set(ERR_USAGE, "--tokens %.32s: expected a number such as 15B or 1T", a->token_text);
    return ERR_NONE;
}

double plan_options_days(const struct plan_options *options, double tokens_per_s)
{
    return options->tokens / tokens_per_s / 86400;
}

static int read_goal(struct plan_options *a)
{
    static const char *const goals[] = {"fastest", "smallest", "cheapest", "longest"};
    for (size_t i = 0; a->goal_name && i < sizeof goals / sizeof goals[0]; i++)
        if (strcmp(a->goal_name, goals[i]) == 0) {
            a->goal = (enum plan_goal)i;
            return a->search ? ERR_NONE : err_set(ERR_USAGE, "--goal needs --search");
        }
    return a->goal_name
               ? err_set(ERR_USAGE, "--goal %.64s: expected fastest, smallest, cheapest or longest", a->goal_name)
               : ERR_NONE;
}

static int read_mesh(struct plan_options *a)
{
    char text[MESH_TEXT_BYTES];
    struct mesh mesh;
    if (!a->mesh)
        return ERR_NONE;
    TRY(plan_mesh_read(a->mesh, text, &a->choice));
    free(a->mesh);
    a->mesh = *text ? strdup(text) : NULL;
    if (*text && !a->mesh)
        return err_set(ERR_MEMORY, "no memory for options");
    if (a->mesh && a->world == 0 && mesh_parse(text, &mesh) == ERR_NONE)
        a->world = mesh_world(&mesh);
    return ERR_NONE;
}

static int read_choice(struct plan_options *a)
{
    const struct framework_words words = {a->framework, a->logits, a->weights, a->moments, a->products};
    a->choice.checkpointed_share = a->checkpointed;
    return framework_choose(&words, &a->choice);
}

static int check(const struct plan_options *a)
{
    if (a->papers + a->throughputs + a->memories > 1)
        return err_set(ERR_USAGE, "--paper, --throughput and --memory exclude each other");
    if (a->papers || a->throughputs || a->memories)
        return a->preset || a->config_path
                   ? err_set(ERR_USAGE, "%s define their own configurations", a->papers ? "papers" : "published runs")
                   : ERR_NONE;
    if (a->against)
        return a->preset || a->config_path || a->machine
                   ? err_set(ERR_USAGE, "--against takes configurations and machine from its file")
                   : ERR_NONE;
    if (!a->preset == !a->config_path)
        return err_set(ERR_USAGE, "give one of --preset NAME and --config FILE");
    if (a->world > PLAN_RANKS_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", a->world, PLAN_RANKS_MAX);
    if (a->mesh && a->search)
        return err_set(ERR_USAGE,
                       "--search and --mesh exclude each other, but for context=C: a search has worlds of its own");
    if (a->write && (a->choice.context > 1 || a->choice.interleave > 1 || a->choice.whole_experts))
        return err_set(ERR_USAGE, "--write: no key of a configuration says --interleave, context=C or expert_tensor=1");
    if (a->world_list && !a->search)
        return err_set(ERR_USAGE, "--worlds needs --search; --world is for one plan");
    if (a->lora_rank > 65536)
        return err_set(ERR_USAGE, "--lora %lld: expected at most 65536", a->lora_rank);
    if (a->checkpointed > 1)
        return err_set(ERR_USAGE, "--checkpointed %g: expected a share above 0 and up to 1", a->checkpointed);
    if (a->choice.weights == WEIGHTS_NF4 && a->lora_rank == 0)
        return err_set(ERR_USAGE, "--weights nf4: expected --lora RANK, too, as only frozen weights have 4 bits");
    if (a->search && a->explain)
        return err_set(ERR_USAGE, "--search and --explain exclude each other: explain one configuration");
    return ERR_NONE;
}

// A file's "auto" depends on the model. An unknown one is refused later.
static void know_model(struct plan_options *a)
{
    const struct model *model;
    struct transformer shape;
    if (!a->config_path || plan_model_find(plan_options_model_name(a), 0, &model) != ERR_NONE)
        return;
    a->width = plan_model_transformer(model, &shape) ? shape.width : 0;
    a->dtype = plan_model_dtype(model);
}

int plan_options_parse(int argc, const char **argv, struct plan_options *out)
{
    *out = (struct plan_options){0};
    TRY(parse(argc, argv, out));
    TRY(read_worlds(out));
    TRY(read_goal(out));
    TRY(read_tokens(out));
    TRY(read_mesh(out));
    if (out->config_path)
        TRY(plan_options_of_file(out));
    TRY(read_choice(out));
    TRY(check(out));
    know_model(out);
    return ERR_NONE;
}

void plan_options_close(struct plan_options *a)
{
    char *texts[] = {a->preset, a->config_path, a->model,      a->machine,   a->write,    a->against,
                     a->paper,  a->world_list,  a->throughput, a->goal_name, a->mesh,     a->framework,
                     a->logits, a->weights,     a->moments,    a->memory,    a->products, a->token_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    for (char **value = a->set; value && *value; value++)
        free(*value);
    free(a->set);
}
