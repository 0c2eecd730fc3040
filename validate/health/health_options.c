// SPDX-License-Identifier: Apache-2.0
#include "validate/health/health_options.h"

#include "base/err.h"
#include "ref/tier/folder_room.h"
#include "base/process/interrupt.h"
#include "bench/harness/bench_world.h"
#include "validate/health/health_round.h"
#include "validate/health/rank_vote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
}

const volatile sig_atomic_t *health_interrupted(void)
{
    return &interrupted;
}

void health_watch_signals(void)
{
    interrupt_watch(on_signal);
}

static int check_folders(char *const *folders)
{
    struct stat found;
    for (; folders && *folders; folders++) {
        errno = 0;
        if (stat(*folders, &found) != 0 || !S_ISDIR(found.st_mode))
            return err_set(ERR_USAGE, "--nvme-path %s: %s", *folders, errno == 0 ? "not a folder" : strerror(errno));
        TRY(folder_check_writable("--nvme-path", *folders));
    }
    return ERR_NONE;
}

static bool is_of_device(const char *operation)
{
    return strcmp(operation, DEVICE_PRODUCTS) == 0 || strcmp(operation, DEVICE_MEMORY) == 0 ||
           strcmp(operation, DEVICE_COPIES) == 0;
}

// OPERATION@CORE[@ROUND]; names of operations have no @.
static int read_flip(const char *text, struct health_machine *machine)
{
    char *end;
    const char *at = strchr(text, '@');
    snprintf(machine->flipped, sizeof machine->flipped, "%.*s", at ? (int)(at - text) : (int)strlen(text), text);
    machine->flip = (struct health_flip){.operation = machine->flipped, .core = -1};
    if (at) {
        machine->flip.core = (int)strtol(at + 1, &end, 10);
        machine->flip.round = *end == '@' ? strtoull(end + 1, &end, 10) : 0;
        if (end == at + 1 || *end)
            at = NULL;
    }
    const int most = strcmp(machine->flipped, DEVICE_PRODUCTS) == 0 ? machine->multiprocessors : machine->device_count;
    if (at && machine->device_count > 0 && is_of_device(machine->flipped)) {
        machine->device_flip = (struct device_flip){machine->flipped, machine->flip.core, machine->flip.round};
        return machine->flip.core >= 0 && machine->flip.core < most
                   ? ERR_NONE
                   : err_set(ERR_USAGE, "--inject %s: expected a number below %d behind the @", text, most);
    }
    bool known = bench_world_comm() && strcmp(machine->flipped, HEALTH_LINK) == 0, here = false;
    for (size_t i = 0; i < machine->setting.operation_count; i++)
        known |= strcmp(machine->operations[i].name, machine->flipped) == 0;
    for (size_t i = 0; i < machine->setting.core_count; i++)
        here |= machine->cores[i] == machine->flip.core;
    if (at && known && here) {
        machine->setting.flip = &machine->flip;
        return ERR_NONE;
    }
    char names[512] = "";
    for (size_t i = 0; i < machine->setting.operation_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s\"%s\"", i ? ", " : "",
                 machine->operations[i].name);
    return err_set(ERR_USAGE,
                   "--inject %s: expected OPERATION@CORE or OPERATION@CORE@ROUND with a core of %d to %d and "
                   "an operation of %s",
                   text, machine->cores[0], machine->cores[machine->setting.core_count - 1], names);
}

int health_machine_find(const struct health_options *options, struct health_machine *out)
{
    *out = (struct health_machine){0};
    TRY(check_folders(options->folders));
    if (options->device)
        TRY(device_check_find(options->device, &out->device_count, &out->multiprocessors));
    out->setting = (struct health_round_setting){
        .cores = out->cores,
        .core_count = pin_cores(out->cores, HEALTH_CORE_MAX),
        .operations = out->operations,
        .operation_count = health_operations(options->folders != NULL, out->operations),
        .folders = (const char *const *)options->folders,
        .interrupted = &interrupted,
    };
    if (out->setting.core_count == 0)
        return err_set(ERR_IO, "the system does not say which cores this process may use");
    TRY(health_check_room(&out->setting));
    return options->flip ? read_flip(options->flip, out) : ERR_NONE;
}
