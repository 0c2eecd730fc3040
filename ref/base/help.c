// SPDX-License-Identifier: Apache-2.0
#include "help.h"

#include "config.h"
#include "err.h"
#include "gpt_find.h"
#include "linear.h"
#include "size.h"

#include <stdlib.h>
#include <string.h>

// Each works as it stands where the files exist that it names; help_test.c parses them all and runs those of train,
// check, answer and export.
static const struct {
    const char *command;
    const char *const lines[6];
} examples[] = {
    {"zerogauge",
     {"zerogauge validate --quick", "zerogauge train --preset zero3 --world 4 --verify", "zerogauge check"}},
    {"zerogauge train",
     {"zerogauge train --preset zero3 --world 4 --steps 50 --verify",
      "zerogauge train --preset zero_infinity --nvme-path . --checkpoint saved --every 20",
      "zerogauge train --config ds.json --set zero_optimization.stage=2 --print-config"}},
    {"zerogauge validate",
     {"zerogauge validate --quick", "zerogauge validate --nvme-path /mnt/nvme --model llama-8b --out results",
      "zerogauge validate --bands fleet.json --world 8"}},
    {"zerogauge check",
     {"zerogauge check", "zerogauge check --requirement R-OPT-01 --plugin ./example.so",
      "zerogauge check --claims claims.json --out report -- torchrun --nproc-per-node {world} mine.py {cases} "
      "{answers}"}},
    {"zerogauge plan",
     {"zerogauge plan --preset zero3 --model llama-70b --world 64", "zerogauge plan --paper zero-table-1",
      "zerogauge plan --claims",
      "zerogauge plan --config ds.json --model gpt-1t --world 1024 --machine dgx-2 --explain",
      "zerogauge plan --preset zero3 --model llama-8b --machine workstation --search --write found.json"}},
    {"zerogauge report",
     {"zerogauge report --html page.html results/result.jsonl", "zerogauge report --verify results/result.jsonl",
      "zerogauge report --compare yesterday/result.jsonl results/result.jsonl"}},
    {"zerogauge answer",
     {"zerogauge answer --case cases/adam-basic.w2.s0.fp32 answer",
      "zerogauge check --out report -- zerogauge answer --recipe torch-fused-cpu {cases} {answers} {world} {state}",
      "zerogauge check -- mpirun -n {world} zerogauge answer {cases} {answers} {world} {state}"}},
    {"zerogauge export",
     {"zerogauge export saved weights.safetensors", "zerogauge export saved weights-bf16.safetensors --dtype bf16"}},
    {"zerogauge info", {"zerogauge info", "zerogauge info --json | jq .machine.processor"}},
    {"zerogauge bench", {"zerogauge bench all --quick", "zerogauge bench adam --threads 1,all"}},
    {"zerogauge bench all",
     {"zerogauge bench all --quick", "zerogauge bench all --nvme-path /mnt/nvme --json > all.jsonl"}},
    {"zerogauge bench adam",
     {"zerogauge bench adam --quick", "zerogauge bench adam --recipe all --isa all --sizes 1M --json > adam.jsonl"}},
    {"zerogauge bench comm",
     {"zerogauge bench comm --world 4 --sizes 8,1K,1M", "zerogauge bench comm --operation all-reduce --json"}},
    {"zerogauge bench gds",
     {"zerogauge bench gds --nvme-path /mnt/nvme", "zerogauge bench gds --quick --direction read --threads 1,8,16"}},
    {"zerogauge bench links",
     {"mpirun -n 4 --host one,two,three,four zerogauge bench links", "srun -N 8 zerogauge bench links --json"}},
    {"zerogauge bench memory",
     {"zerogauge bench memory --quick", "zerogauge bench memory --threads 1,all --out memory.jsonl"}},
    {"zerogauge bench nvme",
     {"zerogauge bench nvme --nvme-path /mnt/nvme --size 4G", "zerogauge bench nvme --quick --direction read"}},
    {"zerogauge bench overlap",
     {"zerogauge bench overlap --emulate dgx-2", "zerogauge bench overlap --world 2 --trace timeline.json"}},
    {"zerogauge bench pcie", {"zerogauge bench pcie", "zerogauge bench pcie --nvme-path /mnt/nvme --json"}},
    {"zerogauge bench peer",
     {"zerogauge bench peer --part adam --recipe torch-fused-cpu --beside 'python3 bench/peers/adam.py --adam fused'",
      "zerogauge bench peer --part comm --operation all-reduce --beside 'python3 bench/peers/comm.py'"}},
    {"zerogauge bench pipeline",
     {"zerogauge bench pipeline --nvme-path /mnt/nvme", "zerogauge bench pipeline --quick --seconds 0.1 --json"}},
    {"zerogauge bench ranks", {"zerogauge bench ranks --world 4", "zerogauge bench ranks --pin 0,1 --json"}},
    {"zerogauge bench step",
     {"zerogauge bench step --model gpt-10m", "zerogauge bench step --quick --schedule overlap --json"}},
    {"zerogauge bench swap",
     {"zerogauge bench swap --nvme-path /mnt/nvme", "zerogauge bench swap --buffers 3,12 --engine io_uring"}},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

void help_print_examples(const char *command, FILE *out)
{
    for (int i = 0; i < EXAMPLE_COUNT; i++) {
        if (strcmp(examples[i].command, command) != 0)
            continue;
        fprintf(out, "\nExamples:\n");
        for (const char *const *line = examples[i].lines; *line; line++)
            fprintf(out, "  %s\n", *line);
    }
}

// popt calls this for the options of the table that has it.
static void print_help(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                       const char *argument, const void *data)
{
    (void)reason, (void)option, (void)argument, (void)data;
    poptPrintHelp(context, stdout, 0);
    help_print_examples(poptGetInvocationName(context), stdout);
    poptFreeContext(context);
    exit(0);
}

struct poptOption help_options[] = {
    {NULL, '\0', POPT_ARG_CALLBACK, (void *)print_help, 0, NULL, NULL},
    {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this text", NULL},
    POPT_TABLEEND,
};

void help_print_presets(FILE *out)
{
    static const char *const here[] = {"."};
    const struct config_options options = {.world = 1, .nvme_paths = here, .nvme_path_count = 1};
    struct config config;
    const char *name;
    for (size_t i = 0; (name = config_preset_name(i)) != NULL; i++)
        if (config_load_preset(name, &options, &config, NULL) == ERR_NONE)
            fprintf(out, "%-16s stage %d; parameters on %s, gradients on %s, optimizer on %s\n", name, config.stage,
                    ledger_tier_name(config.offload_param.tier), ledger_tier_name(config.gradient_tier),
                    ledger_tier_name(config.offload_optimizer.tier));
}

static void print_model(const struct model *model, FILE *out)
{
    char count[SIZE_TEXT_BYTES];
    fprintf(out, "%-16s %s parameters\n", model->name, size_text(model_param_elements(model, false), count));
}

void help_print_models(FILE *out)
{
    const struct model *model;
    const char *name;
    for (int i = 0; (name = gpt_name(i)) != NULL; i++)
        if (gpt_find(name, &model) == ERR_NONE)
            print_model(model, out);
    for (int i = 0; (model = linear_model(i)) != NULL; i++)
        print_model(model, out);
}
