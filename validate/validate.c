// SPDX-License-Identifier: Apache-2.0
// Runs the parts in order (validate_collect.c takes their results), judges them (validate_judge.c), ends the file.
#include "validate/validate_internal.h"

#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "base/err.h"
#include "base/file.h"
#include "validate/fit.h"
#include "results/record/other_load.h"
#include "results/record/record.h"
#include "validate/validate_world.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double seconds_since(const struct validation *v)
{
    return (double)(clock_now_ns() - v->begin_ns) * 1e-9;
}

static bool is_interrupted(const struct validation *v)
{
    return v->setting->interrupted && *v->setting->interrupted;
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

// When the ranks of a launcher cannot continue together, the parts after this one stay untested.
static int judge_broken(struct validation *v, const char *why)
{
    struct bench_finding finding = {.kind = "part", .verdict = FINDING_INCOMPLETE, .id = "ranks", .value = NAN};
    v->broken = true;
    bench_world_break();
    snprintf(finding.text, sizeof finding.text, "ranks: %.300s; the parts after %s were not run", why,
             v->setting->plan->parts[v->part].name);
    return validation_judge(v, &finding);
}

static int take_part(struct validation *v, const struct validate_part *part, struct part_run runs[])
{
    // Under a launcher each host has a plan of its own, so that the shares stay as they were made.
    if (!bench_world_comm())
        validate_plan_share(v->setting->plan, v->part, VALIDATE_QUICK_PARTS_S - seconds_since(v));
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
            TRY(validation_collect(v, part, &runs[rank], rank, begin_s));
    return *broken ? judge_broken(v, broken) : ERR_NONE;
}

static int run_parts(struct validation *v)
{
    int world = bench_world_size();
    struct part_run *runs = calloc((size_t)world, sizeof *runs);
    int rc = runs ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the results of %d ranks", world);
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
    assert(setting && setting->folder && setting->plan && setting->ranges);
    assert(setting->plan->count <= VALIDATE_PART_MAX);
    char path[PATH_MAX];
    struct validation v = {.setting = setting, .result = out, .begin_ns = clock_now_ns()};
    health_counters_read(&v.health_before);
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
    for (size_t i = 0; i < result->skip_count; i++)
        json_decref(result->skips[i].record);
    free(result->lines);
    free(result->skips);
    bench_findings_free(&result->findings);
    json_decref(result->fits);
    json_decref(result->conformance.record);
    *result = (struct validate_result){0};
}

enum finding_verdict validate_verdict(const struct validate_result *result)
{
    return result->interrupted ? FINDING_INCOMPLETE : bench_findings_verdict(&result->findings);
}
