// SPDX-License-Identifier: Apache-2.0
// The command line: one table of subcommands. Exit status: 0 good, 1 a check failed, 2 usage or bad input, 77 nothing
// could be tested.
#include "bench/table/benchmarks.h"
#include "validate/validate.h"
#include "conformance/reference/reference.h"
#include "conformance/run/check.h"
#include "plan/claims/cmd_plan.h"
#include "ref/checkpoint/export.h"
#include "base/help.h"
#include "cli/help_lists.h"
#include "info/info.h"
#include "ref/train/train.h"
#include "results/page/report_command.h"

#include <stdio.h>
#include <string.h>

static int help_main(int argc, const char **argv);
static int version_main(int argc, const char **argv);

// Each takes "zerogauge NAME" as argv[0], as its help calls it, and returns the exit status. The last rows are other
// words for the same, not listed.
static const struct command {
    const char *name;
    int (*run)(int argc, const char **argv);
    const char *summary;
} commands[] = {
    {"train", train_main, "train a model at a ZeRO stage; --verify compares it with unsharded Adam, bit by bit"},
    {"validate", validate_main, "say whether this machine does what its parts allow, and leave a folder that shows it"},
    {"check", check_main, "the conformance suite, on the reference or on another implementation"},
    {"bench", bench_main, "measure a part against what this machine allows"},
    {"plan", plan_main, "what training would hold, move and take on a machine, of any model and world"},
    {"report", report_main, "verify, show and compare result files"},
    {"answer", answer_main, "answer the suite's cases with the reference, as another implementation would"},
    {"export", export_main, "write a checkpoint's weights to one safetensors file"},
    {"info", info_main, "what this machine has, and what this binary can use of it"},
    {"help", help_main, "this text; `help COMMAND`, `help presets` and `help models` say more"},
    {"version", version_main, "the version"},
    {"--help", help_main, NULL},
    {"-h", help_main, NULL},
    {"--version", version_main, NULL},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const char *const examples[] = {"zerogauge validate --quick",
                                       "zerogauge train --preset zero3 --world 4 --verify", "zerogauge check", NULL};

static void commands_print(FILE *out)
{
    fprintf(out, "usage: zerogauge COMMAND [OPTION...]     (--help after a command lists its options)\n");
    for (int i = 0; i < COMMAND_COUNT && commands[i].summary; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
}

static const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    fprintf(stderr, "zerogauge: there is no command '%s'\n", name);
    return NULL;
}

static int command_run(const struct command *command, int argc, const char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "zerogauge %s", command->name);
    argv[0] = name;
    return command->run(argc, argv);
}

static int help_main(int argc, const char **argv)
{
    const struct command *command = NULL;
    if (argc > 1 && strcmp(argv[1], "presets") == 0) {
        help_lists_presets(stdout);
    } else if (argc > 1 && strcmp(argv[1], "models") == 0) {
        help_lists_models(stdout);
    } else if (argc > 1 && !(command = command_find(argv[1]))) {
        commands_print(stderr);
        return 2;
    } else if (command && command->run != help_main && command->run != version_main) {
        // `help bench adam` is `bench adam --help`.
        const char *asked[] = {NULL, argc > 2 ? argv[2] : "--help", argc > 2 ? "--help" : NULL, NULL};
        return command_run(command, argc > 2 ? 3 : 2, asked);
    } else {
        commands_print(stdout);
        help_print_examples(examples, stdout);
    }
    return 0;
}

static int version_main(int argc, const char **argv)
{
    (void)argc, (void)argv;
    printf("zerogauge %s\n", ZG_VERSION);
    return 0;
}

int main(int argc, const char **argv)
{
    const struct command *command = argc >= 2 ? command_find(argv[1]) : NULL;
    if (command)
        return command_run(command, argc - 1, argv + 1);
    commands_print(stderr);
    return 2;
}
