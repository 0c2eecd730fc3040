// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include "bench/table/benchmarks.h"
#include "conformance/reference/reference.h"
#include "conformance/run/check.h"
#include "validate/health/health.h"
#include "cli/info/info.h"
#include "plan/planner/plan_options.h"
#include "ref/model/export/export.h"
#include "ref/model/export/states.h"
#include "ref/train/train.h"
#include "results/page/result_report.h"
#include "validate/validate.h"

#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {"train", train_main, "train a model at a ZeRO stage; --verify compares it bit by bit with unsharded Adam"},
    {"validate", validate_main, "check that this machine reaches the performance its hardware allows; writes a report"},
    {"preflight", preflight_main, "check a node in half a minute: cores, memory, disk, links; for a job's prolog"},
    {"soak", soak_main, "look for silent data corruption for hours: every core computes the same, and votes"},
    {"check", check_main, "run the conformance suite on the reference or on another implementation"},
    {"bench", bench_main, "measure one part of training against a baseline of this machine"},
    {"plan", plan_main, "predict memory, traffic and time of training for any model, world and machine"},
    {"report", report_main, "verify, show and compare result files"},
    {"answer", answer_main, "answer the suite's cases with the reference, in the form of an adapter"},
    {"export", export_main, "write a checkpoint's weights to one safetensors file"},
    {"convert", convert_main, "convert a checkpoint, with all states, to and from other programs' formats"},
    {"info", info_main, "show this machine's hardware and software, and what this binary can use"},
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
