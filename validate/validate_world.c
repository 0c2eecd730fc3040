// SPDX-License-Identifier: Apache-2.0
#include "validate/validate_world.h"

#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "base/process/check_folder.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/table/benchmarks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES_MAX = 32 << 20 };

// --- a part's report from another host ---

// The file's text; "" if there is none. Null: no memory.
static char *text_of(const char *folder, const struct validate_part *part, const char *end)
{
    char path[PATH_MAX], name[VALIDATE_NAME_BYTES + 8], *text = NULL;
    size_t bytes;
    snprintf(name, sizeof name, "%s.%s", part->name, end);
    if (file_join(folder, name, path) != ERR_NONE || file_read_text(path, OUTPUT_BYTES_MAX, &text, &bytes) != ERR_NONE)
        return strdup("");
    return text;
}

static char *report_text(const struct validate_part *part, const char *folder, const struct part_run *run)
{
    char *output = text_of(folder, part, "out"), *errors = text_of(folder, part, "err"), *text = NULL;
    json_t *report = json_pack("{s:i, s:i, s:i, s:i, s:b, s:f, s:s, s:O, s:s?, s:s?}", "state", (int)run->state,
                               "verdict", (int)run->verdict, "end", (int)run->launch.end, "status", run->launch.status,
                               "not_started", run->not_started, "seconds", run->launch.seconds, "reason", run->reason,
                               "records", run->records, "output", output, "errors", errors);
    // Output that is not UTF-8 cannot be packed.
    if (!report)
        report = json_pack("{s:i, s:i, s:s, s:[]}", "state", PART_FAILED, "verdict", FINDING_INCOMPLETE, "reason",
                           "its output is not UTF-8", "records");
    if (report)
        text = json_dumps(report, JSON_COMPACT);
    json_decref(report);
    free(output);
    free(errors);
    return text;
}

// Writes NAME.rank-2.out and .err next to rank 0's files.
static int write_text(const char *folder, const struct validate_part *part, int rank, const char *end, const char *text)
{
    char path[PATH_MAX], name[VALIDATE_NAME_BYTES + 32];
    snprintf(name, sizeof name, "%s.rank-%d.%s", part->name, rank, end);
    TRY(file_join(folder, name, path));
    struct file_output file;
    TRY(file_output_open(path, FILE_NEW, &file));
    fputs(text ? text : "", file.out);
    return file_output_close(&file, ERR_NONE);
}

static int take_report(const struct validate_part *part, const char *folder, int rank, const char *text,
                       struct part_run *run)
{
    json_t *report = json_loads(text, 0, NULL);
    const char *reason = json_string_value(json_object_get(report, "reason"));
    json_t *records = json_object_get(report, "records");
    if (!reason || !records) {
        json_decref(report);
        return err_set(ERR_MEMORY, "no memory for the results of rank %d", rank);
    }
    *run = (struct part_run){
        .state = (enum part_state)json_integer_value(json_object_get(report, "state")),
        .verdict = (enum finding_verdict)json_integer_value(json_object_get(report, "verdict")),
        .launch = {.end = (enum launch_end)json_integer_value(json_object_get(report, "end")),
                   .status = (int)json_integer_value(json_object_get(report, "status")),
                   .seconds = json_number_value(json_object_get(report, "seconds"))},
        .not_started = json_is_true(json_object_get(report, "not_started")),
        .records = json_incref(records),
    };
    snprintf(run->reason, sizeof run->reason, "%s", reason);
    int rc = write_text(folder, part, rank, "out", json_string_value(json_object_get(report, "output")));
    if (rc == ERR_NONE)
        rc = write_text(folder, part, rank, "err", json_string_value(json_object_get(report, "errors")));
    json_decref(report);
    return rc;
}

// --- a part about a machine ---

// Results of several hosts name their rank and host in the case.
static void add_rank_and_host(json_t *records)
{
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record) {
        json_t *of_case = json_object_get(record, "case");
        if (!of_case)
            continue;
        json_object_set_new(of_case, "rank", json_integer(bench_world_rank()));
        json_object_set_new(of_case, "host", json_string(bench_world_host(bench_world_rank())));
    }
}

static int run_child(const struct validate_part *part, const struct part_setting *setting, struct part_run *run)
{
    bench_world_take_host(true);
    int rc = part_run(part, setting, run);
    bench_world_take_host(false);
    add_rank_and_host(run->records);
    return rc;
}

// An interruption by the user does not by itself break the ranks' communication.
static void note_broken(const struct supervised *result, bool failed, char broken[BENCH_FINDING_TEXT_BYTES])
{
    bool interrupted = result->aborted && result->end == LAUNCH_INTERRUPTED;
    if ((failed || result->abandoned) && !interrupted)
        snprintf(broken, BENCH_FINDING_TEXT_BYTES, "%.500s", result->message);
}

struct gathering {
    char **all;
};

static int gather(void *context)
{
    struct gathering *gathering = context;
    return bench_world_gather("", &gathering->all);
}

static int run_on_hosts(const struct validate_part *part, const struct part_setting *setting, struct part_run runs[],
                        char broken[BENCH_FINDING_TEXT_BYTES])
{
    int world = bench_world_size(), rc = run_child(part, setting, &runs[0]);
    if (rc != ERR_NONE)
        return rc;
    struct gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering)
        return err_set(ERR_MEMORY, "no memory for the results of other hosts");
    struct supervised result;
    TRY(supervise(gather, gathering, part->limit_s, setting, &result));
    note_broken(&result, result.code != ERR_NONE, broken);
    if (result.abandoned)  // the thread may still write to `gathering`
        return ERR_NONE;
    for (int rank = 0; rank < world && gathering->all; rank++) {
        if (rank > 0 && *gathering->all[rank] && rc == ERR_NONE)
            rc = take_report(part, setting->folder, rank, gathering->all[rank], &runs[rank]);
        free(gathering->all[rank]);
    }
    free(gathering->all);
    free(gathering);
    return rc;
}

static int follow_on_host(const struct validate_part *part, const volatile sig_atomic_t *interrupted)
{
    char *text = NULL, **all = NULL, folder[PATH_MAX];
    int rc = ERR_NONE;
    if (bench_world_rank_on_host() == 0) {
        struct part_run run = {0};
        TRY(check_folder_temporary(false, folder));
        const struct part_setting setting = {.folder = folder, .interrupted = interrupted};
        rc = run_child(part, &setting, &run);
        if (rc == ERR_NONE)
            text = report_text(part, folder, &run);
        part_run_free(&run);
        check_folder_remove(folder);
    } else {
        text = strdup("");
    }
    if (rc == ERR_NONE && !text)
        rc = err_set(ERR_MEMORY, "no memory for the results of a part");
    if (rc == ERR_NONE)
        rc = bench_world_gather(text, &all);
    free(text);
    return rc;
}

// --- a part of all ranks together ---

static int words_of(const struct validate_part *part)
{
    int count = 0;
    while (part->argv[count])
        count++;
    return count;
}

struct benching {
    const struct validate_part *part;
    int status;
};

// Passes the part's words after "PROGRAM bench".
static int run_bench(void *context)
{
    struct benching *benching = context;
    err_clear();
    benching->status = bench_named(words_of(benching->part) - 2, (const char **)(uintptr_t)benching->part->argv + 2);
    return benching->status == 0 ? ERR_NONE : err_set(ERR_CHECK, "%s", err_message());
}

static void describe_end(const struct supervised *result, int status, struct launch_result *out)
{
    *out = (struct launch_result){.end = result->end, .seconds = result->seconds, .status = status};
    if (result->end == LAUNCH_EXITED)
        snprintf(out->text, sizeof out->text, "exited with status %d", status);
    else
        snprintf(out->text, sizeof out->text, "%.250s", result->message);
}

static int run_together(const struct validate_part *part, const struct part_setting *setting, struct part_run *run,
                        char broken[BENCH_FINDING_TEXT_BYTES])
{
    struct part_files files;
    struct benching *benching = calloc(1, sizeof *benching);
    if (!benching)
        return err_set(ERR_MEMORY, "no memory for %s", part->name);
    benching->part = part;
    TRY(part_files_open(part, setting, run, &files));
    FILE *kept = stdout;
    stdout = files.output;
    struct supervised result;
    int rc = supervise(run_bench, benching, part->limit_s, setting, &result);
    stdout = kept;
    TRY(rc);
    describe_end(&result, result.abandoned ? 0 : benching->status, &run->launch);
    note_broken(&result, bench_world_is_broken(), broken);
    if (result.message[0])
        fprintf(files.errors, "%s\n", result.message);
    if (!result.abandoned) {
        fclose(files.output);
        free(benching);
    }
    fclose(files.errors);
    return part_end(part, &files, run);
}

static bool is_together(const struct validate_part *part)
{
    return part->bench && bench_is_together(part->bench);
}

int validate_world_part(const struct validate_part *part, const struct part_setting *setting, struct part_run runs[],
                        char broken[BENCH_FINDING_TEXT_BYTES])
{
    assert(bench_world_comm() && bench_world_rank() == 0);
    broken[0] = '\0';
    return is_together(part) ? run_together(part, setting, &runs[0], broken)
                             : run_on_hosts(part, setting, runs, broken);
}

int validate_world_follow(const struct validate_plan *plan, const char *const *paths,
                          const volatile sig_atomic_t *interrupted)
{
    assert(bench_world_comm() && bench_world_rank() > 0);
    TRY(validate_world_describe(paths, NULL));
    for (size_t i = 0; i < plan->count; i++) {
        const struct validate_part *part = &plan->parts[i];
        struct benching benching = {.part = part};
        if (*interrupted)
            return err_set(ERR_USAGE, "interrupted");
        if (!is_together(part))
            TRY(follow_on_host(part, interrupted));
        else if (run_bench(&benching) != ERR_NONE && bench_world_is_broken())
            return err_set(ERR_PEER, "%s", err_message());
    }
    return ERR_NONE;
}
