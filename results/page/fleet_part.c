// SPDX-License-Identifier: Apache-2.0
#include "results/page/fleet_part.h"

#include "base/array.h"
#include "base/err.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(void)
{
    return err_set(ERR_MEMORY, "no memory for a fleet");
}

int fleet_number(struct fleet *fleet, const char *text, uint32_t *out)
{
    json_t *known = json_object_get(fleet->texts, text);
    *out = (uint32_t)(known ? (size_t)json_integer_value(known) : fleet->text_count);
    if (known)
        return ERR_NONE;
    TRY(array_grow(&fleet->names, &fleet->text_room, fleet->text_count, sizeof *fleet->names, "texts"));
    if (json_object_set_new(fleet->texts, text, json_integer(*out)) != 0)
        return no_memory();
    fleet->names[fleet->text_count++] = json_object_iter_key(json_object_iter_at(fleet->texts, text));
    return ERR_NONE;
}

// The host of that name, which is added if there is none; stays where it is until another is added.
static int host_of(struct fleet *fleet, const char *name, struct fleet_host **out)
{
    json_t *known = json_object_get(fleet->indices, name);
    size_t index = known ? (size_t)json_integer_value(known) : fleet->host_count;
    if (!known) {
        TRY(array_grow(&fleet->hosts, &fleet->host_room, index, sizeof *fleet->hosts, "hosts"));
        fleet->hosts[index] = (struct fleet_host){.name = strdup(name), .command = "zerogauge validate --out again"};
        fleet->host_count++;
        if (!fleet->hosts[index].name || json_object_set_new(fleet->indices, name, json_integer((json_int_t)index)))
            return no_memory();
    }
    *out = &fleet->hosts[index];
    return ERR_NONE;
}

// Keeps the gravest, and of several the first.
int fleet_say(struct fleet_run *run, enum fleet_what what, const char *text)
{
    if (what >= run->what)
        return ERR_NONE;
    free(run->text);
    run->what = what;
    run->text = strdup(text);
    return run->text ? ERR_NONE : no_memory();
}

struct fleet_part *fleet_part_of(struct fleet_source *source, const char *host)
{
    for (size_t i = 0; i < source->part_count; i++)
        if (strcmp(source->parts[i].host, host) == 0)
            return &source->parts[i];
    return NULL;
}

void fleet_name_part(struct fleet_source *source, const char *host)
{
    if (!fleet_part_of(source, host) && source->part_count < FLEET_PART_MAX)
        snprintf(source->parts[source->part_count++].host, sizeof source->parts[0].host, "%.255s", host);
}

int fleet_add_runs(struct fleet_source *source, const char *program)
{
    for (size_t i = 0; i < source->part_count; i++) {
        struct fleet_host *host = NULL;
        TRY(host_of(source->fleet, source->parts[i].host, &host));
        TRY(array_grow(&host->runs, &host->run_room, host->run_count, sizeof *host->runs, "runs"));
        struct fleet_run *run = source->parts[i].run = &host->runs[host->run_count++];
        *run = (struct fleet_run){.order = source->fleet->run_count++, .what = FLEET_WHAT_COUNT};
        TRY(fleet_number(source->fleet, program, &run->program));
    }
    return ERR_NONE;
}

const struct fleet_run *fleet_latest(const struct fleet_host *host, uint32_t program)
{
    for (size_t i = host->run_count; i-- > 0;)
        if (host->runs[i].program == program)
            return &host->runs[i];
    return NULL;
}

int fleet_blame(struct fleet_host *host, enum fleet_what what, double deviations, size_t times, size_t runs,
                const char *format, ...)
{
    struct fleet_reason *reason = &host->reasons[what];
    va_list arguments;
    if (reason->text)
        return ERR_NONE;
    va_start(arguments, format);
    int bytes = vasprintf(&reason->text, format, arguments);
    va_end(arguments);
    if (bytes < 0)
        reason->text = NULL;
    reason->deviations = deviations;
    reason->times = times;
    reason->runs = runs;
    return reason->text ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a fleet");
}

int fleet_say_of_record(const struct fleet_source *source, enum fleet_what what, const char *text)
{
    struct fleet_host *host = NULL;
    size_t folder = strlen(source->fleet->folder);
    bool within = strncmp(text, source->fleet->folder, folder) == 0 && text[folder] == '/';
    TRY(host_of(source->fleet, source->host, &host));
    text += within ? folder + 1 : 0;
    return fleet_blame(host, what, NAN, 0, 0, "%.*s", (int)strcspn(text, "\n"), text);
}

int fleet_say_of_file(const struct fleet_source *source, enum fleet_what what, const char *words)
{
    char text[FLEET_TEXT_BYTES];
    snprintf(text, sizeof text, "%s: %s", source->name, words);
    return fleet_say_of_record(source, what, text);
}

void fleet_command_of(const char *program, char command[FLEET_COMMAND_BYTES])
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyz", bench[] = "bench ", nccl[] = "nccl-tests ";
    const char *word = strncmp(program, bench, strlen(bench)) == 0 ? program + strlen(bench) : "";
    const char *test = strncmp(program, nccl, strlen(nccl)) == 0 ? program + strlen(nccl) : "";
    size_t test_bytes = strspn(test, letters);
    if (strcmp(program, "preflight") == 0)
        snprintf(command, FLEET_COMMAND_BYTES, "zerogauge preflight");
    else if (strcmp(program, "soak") == 0)
        snprintf(command, FLEET_COMMAND_BYTES, "zerogauge soak --hours 1");
    else if (strncmp(program, "dcgmi ", 6) == 0)
        snprintf(command, FLEET_COMMAND_BYTES, "dcgmi diag --run 3 --json");
    else if (test_bytes > 0 && test_bytes < FLEET_COMMAND_BYTES / 2 && memchr(test, '_', test_bytes))
        snprintf(command, FLEET_COMMAND_BYTES, "%.*s -J again.json", (int)test_bytes, test);
    else if (*word && word[strspn(word, letters)] == '\0' && strlen(word) < FLEET_COMMAND_BYTES / 2)
        snprintf(command, FLEET_COMMAND_BYTES, "zerogauge bench %.40s --out again.jsonl", word);
    else
        snprintf(command, FLEET_COMMAND_BYTES, "zerogauge validate --out again");
}
