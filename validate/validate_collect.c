// SPDX-License-Identifier: Apache-2.0
// Collects one rank's run of a part: its records into the result file, a line on standard output, and a finding where
// it did not succeed.
#include "validate/validate_internal.h"

#include "base/array.h"
#include "base/err.h"
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "cli/info/info.h"
#include "validate/validate_world.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keep_line(struct validate_result *result, json_t *record, size_t line)
{
    TRY(array_grow(&result->lines, &result->line_room, result->line_count, sizeof *result->lines, "results"));
    result->lines[result->line_count++] = (struct result_line){line, json_incref(record)};
    return ERR_NONE;
}

static int keep_skip(struct validate_result *result, json_t *record, size_t line)
{
    struct result_line *skips = realloc(result->skips, (result->skip_count + 1) * sizeof *skips);
    if (!skips)
        return err_set(ERR_MEMORY, "no memory for skipped cases");
    result->skips = skips;
    result->skips[result->skip_count++] = (struct result_line){line, json_incref(record)};
    return ERR_NONE;
}

// Appends the records of a part to the file and keeps those that are judged. Only rank 0's conformance records count.
static int take_records(struct validation *v, json_t *records, int rank)
{
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record) {
        const char *kind = json_string_value(json_object_get(record, "record"));
        bool is_skip = strcmp(kind, "skip") == 0;
        if (rank > 0 && strcmp(kind, "bench") != 0 && !is_skip)
            continue;
        TRY(record_append(v->writer, json_incref(record)));
        if (strcmp(kind, "bench") == 0)
            TRY(keep_line(v->result, record, record_line_count(v->writer)));
        if (is_skip)
            TRY(keep_skip(v->result, record, record_line_count(v->writer)));
        if (strcmp(kind, "conformance") == 0)
            v->result->conformance = (struct result_line){record_line_count(v->writer), json_incref(record)};
    }
    return ERR_NONE;
}

// The command as a user types it: the program without its folder.
static json_t *command_json(const char *const *argv)
{
    const char *base = strrchr(argv[0], '/');
    json_t *command = json_pack("[s]", base ? base + 1 : argv[0]);
    for (argv++; *argv; argv++)
        json_array_append_new(command, json_string(*argv));
    return command;
}

static json_t *part_json(const struct validate_part *part, const struct part_run *run, int rank, double begin_s)
{
    // A command that was killed or could not be started has neither a status nor a signal.
    bool exited = run->launch.end == LAUNCH_EXITED && !run->not_started;
    bool by_signal = run->launch.end == LAUNCH_SIGNALLED;
    json_t *record =
        json_pack("{s:s, s:s, s:o, s:f, s:f, s:o, s:o, s:o}", "record", "part", "name", part->name, "command",
                  command_json(part->argv), "begin_s", begin_s, "end_s", begin_s + run->launch.seconds, "status",
                  exited ? json_integer(run->launch.status) : json_null(), "signal",
                  by_signal ? json_integer(run->launch.status) : json_null(), "reason",
                  *run->reason ? json_string(run->reason) : json_null());
    if (record)
        json_object_set_new(record, "budget_s", part->budget_s > 0 ? json_real(part->budget_s) : json_null());
    if (record && bench_world_comm()) {
        json_object_set_new(record, "rank", json_integer(rank));
        json_object_set_new(record, "host", json_string(bench_world_host(rank)));
    }
    return record;
}

static void show_part(const struct validate_part *part, const struct part_run *run, int rank)
{
    bench_progress("%s", "");
    printf("%-18s %6.1f s  ", part->name, run->launch.seconds);
    if (part->budget_s > 0)
        printf("of %4.1f s  ", part->budget_s);
    if (rank > 0)
        printf("rank %d on host %s: ", rank, bench_world_host(rank));
    if (run->state == PART_DONE && part->bench)
        printf("%zu results\n", json_array_size(run->records));
    else if (run->state == PART_DONE)
        printf("%s\n", json_string_value(json_object_get(json_array_get(run->records, 0), "verdict")));
    else
        printf("%s\n", run->reason);
    fflush(stdout);
}

// Adds the finding of a part that did not succeed. A device that the machine lacks does not count against it; a GPU
// that it has and this program cannot use was not tested.
static int judge_part(struct validation *v, const struct validate_part *part, const struct part_run *run, int rank,
                      size_t line)
{
    char whose[96] = "";
    struct bench_finding finding = {.kind = "part", .verdict = run->verdict, .line = line, .value = NAN};
    if (run->state == PART_ABSENT && v->gpu_count == 0)
        finding.verdict = FINDING_VALID;
    snprintf(finding.id, sizeof finding.id, "%s", part->name);
    if (rank > 0)
        snprintf(whose, sizeof whose, "rank %d on host %s: ", rank, bench_world_host(rank));
    snprintf(finding.text, sizeof finding.text, "%s: %s%.*s", part->name, whose,
             BENCH_FINDING_TEXT_BYTES - VALIDATE_NAME_BYTES - (int)sizeof whose - 3, run->reason);
    return validation_judge(v, &finding);
}

// Another host's processors must conform as well: adds a finding where its verdict is not CONFORMS.
static int judge_other_arithmetic(struct validation *v, const struct part_run *run, int rank)
{
    const char *verdict = json_string_value(json_object_get(json_array_get(run->records, 0), "verdict"));
    if (run->state != PART_DONE || !verdict || strcmp(verdict, "CONFORMS") == 0)
        return ERR_NONE;
    struct bench_finding finding = {.kind = "arithmetic", .id = "arithmetic", .value = NAN};
    finding.verdict = strcmp(verdict, "FAILS") == 0 ? FINDING_INVALID : FINDING_INCOMPLETE;
    snprintf(finding.text, sizeof finding.text,
             "arithmetic: rank %d on host %s: the conformance suite reports %s; arithmetic.rank-%d.out names the "
             "requirements",
             rank, bench_world_host(rank), verdict, rank);
    return validation_judge(v, &finding);
}

int validation_collect(struct validation *v, const struct validate_part *part, const struct part_run *run, int rank,
                       double begin_s)
{
    assert(v->part < v->setting->plan->count && rank >= 0 && run->state != PART_NOT_RUN);
    struct validate_result *result = v->result;
    bool is_first = result->states[v->part] == PART_NOT_RUN;
    if (is_first || run->state == PART_DONE) {
        result->states[v->part] = run->state;
        memcpy(result->reasons[v->part], run->reason, sizeof run->reason);
    }
    if (run->launch.end == LAUNCH_INTERRUPTED)
        result->interrupted = true;
    TRY(record_append(v->writer, part_json(part, run, rank, begin_s)));
    size_t line = record_line_count(v->writer);
    if (run->state == PART_DONE)
        TRY(take_records(v, run->records, rank));
    show_part(part, run, rank);
    if (rank > 0 && !part->bench)
        TRY(judge_other_arithmetic(v, run, rank));
    return *run->reason ? judge_part(v, part, run, rank, line) : ERR_NONE;
}

// Describes the machines of the other hosts of a validation for its `run` record.

enum { OTHER_HOSTS_MAX = 256 };  // RECORDS.md

// Describes this rank's host if it is the first rank there, and not rank 0; else "". Null: no memory.
static char *own_text(const char *const *paths)
{
    int rank = bench_world_rank();
    if (rank == 0 || bench_world_rank_on_host() > 0)
        return strdup("");
    json_t *host = json_pack("{s:s, s:i, s:i, s:o}", "host", bench_world_host(rank), "rank", rank, "rank_count",
                             bench_world_host_size(), "machine", info_machine(paths));
    char *text = host ? json_dumps(host, JSON_COMPACT) : NULL;
    json_decref(host);
    return text;
}

int validate_world_describe(const char *const *paths, json_t *run)
{
    char **all = NULL, *text = own_text(paths);
    if (!text)
        return err_set(ERR_MEMORY, "no memory to describe this host");
    int rc = bench_world_gather(text, &all);
    json_t *hosts = json_array();
    for (int rank = 0; rank < bench_world_size() && all; rank++) {
        if (*all[rank] && json_array_size(hosts) < OTHER_HOSTS_MAX)
            json_array_append_new(hosts, json_loads(all[rank], 0, NULL));
        free(all[rank]);
    }
    if (run && rc == ERR_NONE)
        json_object_set(run, "other_hosts", hosts);
    json_decref(hosts);
    free(all);
    free(text);
    return rc;
}
