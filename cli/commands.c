// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include "bench/table/benchmarks.h"
#include "conformance/reference/reference.h"
#include "conformance/run/check.h"
#include "info/info.h"
#include "plan/claims/cmd_plan.h"
#include "ref/checkpoint/export.h"
#include "ref/train/train.h"
#include "results/page/report_command.h"
#include "validate/validate.h"

#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {"train", train_main, "train a model at a ZeRO stage; --verify compares it with unsharded Adam, bit by bit"},
    {"validate", validate_main, "say whether this machine does what its parts allow, and leave a folder that shows it"},
    {"check", check_main, "the conformance suite, on the reference or on another implementation"},
    {"bench", bench_main, "measure a part against what this machine allows"},
    {"plan", plan_main, "what training would hold, move and take on a machine, of any model and world"},
    {"report", report_main, "verify, show and compare result files"},
    {"answer", answer_main, "answer the suite's cases with the reference, as another implementation would"},
    {"export", export_main, "write a checkpoint's weights to one safetensors file"},
    {"info", info_main, "what this machine has, and what this binary can use of it"},
    {NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(name, command->name) == 0)
            return command;
    return NULL;
}

int command_run(const struct command *command, int argc, const char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "zerogauge %s", command->name);
    argv[0] = name;
    return command->run(argc, argv);
}

int command_help(const struct command *command, const char *benchmark)
{
    const char *argv[] = {NULL, benchmark ? benchmark : "--help", benchmark ? "--help" : NULL, NULL};
    return command_run(command, benchmark ? 3 : 2, argv);
}

bool command_has_benchmarks(const struct command *command)
{
    return command->run == bench_main;
}
