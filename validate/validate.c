// SPDX-License-Identifier: Apache-2.0
// The run: part after part into the result file, then the findings (validate_judge.c), then the end.
#include "validate/validate_internal.h"

#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "results/record/conclusion.h"
#include "base/err.h"
#include "base/file.h"
#include "validate/fit.h"
#include "results/record/other_load.h"
#include "results/record/record.h"
#include "validate/validate_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double seconds_since(const struct validation *v)
{
    return (double)(bench_now_ns() - v->begin_ns) * 1e-9;
}

static bool is_interrupted(const struct validation *v)
{
    return v->setting->interrupted && *v->setting->interrupted;
}

static int keep_line(struct validate_result *result, json_t *record, size_t line)
{
    if (result->line_count == result->line_room) {
        size_t room = result->line_room ? 2 * result->line_room : 64;
        struct result_line *lines = realloc(result->lines, room * sizeof *lines);
        if (!lines)
            return err_set(ERR_MEMORY, "no memory for %zu results", room);
        result->lines = lines;
        result->line_room = room;
    }
    result->lines[result->line_count++] = (struct result_line){line, json_incref(record)};
    return ERR_NONE;
}

// The records of a part, and what is kept of them to be judged. The conformance suite's are those of rank 0.
static int take_records(struct validation *v, json_t *records, int rank)
{
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record) {
        const char *kind = json_string_value(json_object_get(record, "record"));
        if (rank > 0 && strcmp(kind, "bench") != 0)
            continue;
        TRY(record_append(v->writer, json_incref(record)));
        if (strcmp(kind, "bench") == 0)
            TRY(keep_line(v->result, record, record_line_count(v->writer)));
        if (strcmp(kind, "conformance") == 0)
            v->result->conformance = (struct result_line){record_line_count(v->writer), json_incref(record)};
    }
    return ERR_NONE;
}

static double left_s(const struct validation *v, double part_seconds)
{
    const struct validate_plan *plan = v->setting->plan;
    double left = fmax(plan->parts[v->part].expected_s - part_seconds, 0);
    for (size_t i = v->part + 1; i < plan->count; i++)
        left += plan->parts[i].expected_s;
    return left;
}

static void show_progress(void *context, double part_seconds)
{
    const struct validation *v = context;
    bench_progress("[%zu of %zu] %s, %.0f s; about %.0f s left", v->part + 1, v->setting->plan->count,
                   v->setting->plan->parts[v->part].name, part_seconds, left_s(v, part_seconds));
}

// As somebody would type it: the program without its folder.
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
    // What this program ended, or could not start, has neither.
    bool exited = run->launch.end == LAUNCH_EXITED && !run->not_started;
    bool by_signal = run->launch.end == LAUNCH_SIGNALLED;
    json_t *record =
        json_pack("{s:s, s:s, s:o, s:f, s:f, s:o, s:o, s:o}", "record", "part", "name", part->name, "command",
                  command_json(part->argv), "begin_s", begin_s, "end_s", begin_s + run->launch.seconds, "status",
                  exited ? json_integer(run->launch.status) : json_null(), "signal",
                  by_signal ? json_integer(run->launch.status) : json_null(), "reason",
                  *run->reason ? json_string(run->reason) : json_null());
    if (record && bench_world_comm()) {
        json_object_set_new(record, "rank", json_integer(rank));
        json_object_set_new(record, "host", json_string(bench_world_host(rank)));
    }
    return record;
}

static void show_part(const struct validate_part *part, const struct part_run *run, int rank)
{
    bench_progress("%s", "");
    printf("%-16s %6.1f s  ", part->name, run->launch.seconds);
    if (rank > 0)
        printf("rank %d on host %s: ", rank, bench_world_host(rank));
    if (run->state == PART_DONE && part->bench)
        printf("%zu results\n", json_array_size(run->records));
    else if (run->state == PART_DONE)
        printf("%s\n", json_string_value(json_object_get(json_array_get(run->records, 0), "verdict")));
    else
        printf("%s%s\n", run->state == PART_ABSENT ? "not here: " : "", run->reason);
    fflush(stdout);
}

// A part that did not end well. What a machine does not have at all speaks neither for it nor against it; but a GPU
// that it has, and this program cannot use, was not tested.
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

// Another host's processors calculate, too: its suite's verdict, where it is not that it conforms.
static int judge_other_arithmetic(struct validation *v, const struct part_run *run, int rank)
{
    const char *verdict = json_string_value(json_object_get(json_array_get(run->records, 0), "verdict"));
    if (run->state != PART_DONE || !verdict || strcmp(verdict, "CONFORMS") == 0)
        return ERR_NONE;
    struct bench_finding finding = {.kind = "arithmetic", .id = "arithmetic", .value = NAN};
    finding.verdict = strcmp(verdict, "FAILS") == 0 ? FINDING_INVALID : FINDING_INCOMPLETE;
    snprintf(finding.text, sizeof finding.text,
             "arithmetic: rank %d on host %s: the conformance suite says %s; arithmetic.rank-%d.out says which "
             "requirements",
             rank, bench_world_host(rank), verdict, rank);
    return validation_judge(v, &finding);
}

// What one rank has of a part.
static int take_run(struct validation *v, const struct validate_part *part, const struct part_run *run, int rank,
                    double begin_s)
{
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

// The ranks that are processes cannot go on together: what comes after is not tested.
static int judge_broken(struct validation *v, const char *why)
{
    struct bench_finding finding = {.kind = "part", .verdict = FINDING_INCOMPLETE, .id = "ranks", .value = NAN};
    v->broken = true;
    snprintf(finding.text, sizeof finding.text, "ranks: %.300s; what comes after %s was not run", why,
             v->setting->plan->parts[v->part].name);
    return validation_judge(v, &finding);
}

static int take_part(struct validation *v, const struct validate_part *part, struct part_run runs[])
{
    const struct part_setting setting = {
        .folder = v->setting->folder,
        .interrupted = v->setting->interrupted,
        .tick = show_progress,
        .tick_context = v,
    };
    char broken[BENCH_FINDING_TEXT_BYTES] = "";
    double begin_s = seconds_since(v);
    if (bench_world_comm())
        TRY(validate_world_part(part, &setting, runs, broken));
    else
        TRY(part_run(part, &setting, &runs[0]));
    for (int rank = 0; rank < bench_world_size(); rank++)
        if (runs[rank].state != PART_NOT_RUN)
            TRY(take_run(v, part, &runs[rank], rank, begin_s));
    return *broken ? judge_broken(v, broken) : ERR_NONE;
}

static int run_parts(struct validation *v)
{
    int world = bench_world_size();
    struct part_run *runs = calloc((size_t)world, sizeof *runs);
    int rc = runs ? ERR_NONE : err_set(ERR_MEMORY, "no memory for what %d ranks measure", world);
    for (v->part = 0; rc == ERR_NONE && v->part < v->setting->plan->count; v->part++) {
        if (is_interrupted(v)) {
            v->result->interrupted = true;
            break;
        }
        rc = take_part(v, &v->setting->plan->parts[v->part], runs);
        for (int rank = 0; rank < world; rank++) {
            part_run_free(&runs[rank]);
            runs[rank] = (struct part_run){0};
        }
        if (bench_world_comm() && is_interrupted(v))
            v->result->interrupted = true;
        if (v->result->interrupted || v->broken)
            break;
    }
    free(runs);
    return rc;
}

static int take_fits(struct validation *v)
{
    size_t i;
    json_t *record;
    if (!v->setting->fit)
        return ERR_NONE;
    TRY(fit_all(v->setting->fit, v->result->fits));
    json_array_foreach (v->result->fits, i, record) {
        TRY(record_append(v->writer, json_incref(record)));
    }
    return ERR_NONE;
}

static int run_and_judge(struct validation *v)
{
    const struct validate_setting *s = v->setting;
    json_t *run = record_run(s->program, s->level, s->argc, s->argv, s->paths);
    v->gpu_count = json_array_size(json_object_get(json_object_get(run, "machine"), "gpus"));
    int rc = run && bench_world_comm() ? validate_world_describe(s->paths, run) : ERR_NONE;
    if (rc != ERR_NONE) {
        json_decref(run);
        return rc;
    }
    TRY(record_append(v->writer, run));
    TRY(take_fits(v));
    TRY(run_parts(v));
    if (v->result->interrupted)
        return ERR_NONE;
    return validation_judge_all(v);
}

static int end(struct validation *v, double other_load)
{
    json_t *array = bench_findings_json(&v->result->findings);
    v->result->seconds = seconds_since(v);
    v->result->other_load = other_load;
    json_t *record = conclusion_end(array, v->result->interrupted, v->result->seconds, other_load);
    json_decref(array);
    return record_end(v->writer, record);
}

int validate_run(const struct validate_setting *setting, struct validate_result *out)
{
    char path[PATH_MAX];
    struct validation v = {.setting = setting, .result = out, .begin_ns = bench_now_ns()};
    struct other_load before, after;
    other_load_now(&before);
    *out = (struct validate_result){.fits = json_array()};
    TRY(file_join(setting->folder, "result.jsonl", path));
    TRY(record_create(path, &v.writer));
    int rc = run_and_judge(&v);
    other_load_now(&after);
    if (rc == ERR_NONE)
        rc = end(&v, other_load_share(&before, &after));
    record_close(v.writer);
    return rc;
}

void validate_result_free(struct validate_result *result)
{
    for (size_t i = 0; i < result->line_count; i++)
        json_decref(result->lines[i].record);
    free(result->lines);
    bench_findings_free(&result->findings);
    json_decref(result->fits);
    json_decref(result->conformance.record);
    *result = (struct validate_result){0};
}

enum finding_verdict validate_verdict(const struct validate_result *result)
{
    return result->interrupted ? FINDING_INCOMPLETE : bench_findings_verdict(&result->findings);
}
