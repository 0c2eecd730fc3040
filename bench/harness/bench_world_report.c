// SPDX-License-Identifier: Apache-2.0
// What a benchmark prints and records under a launcher: ranks other than 0 keep it, and send it to rank 0 at the end.
#include "bench/harness/bench_world.h"

#include "bench/harness/bench_file.h"
#include "base/err.h"
#include "bench/harness/bench.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The running benchmark.
static struct {
    json_t *records;  // kept for rank 0; null: no benchmark runs under a launcher
    FILE *output;     // captures standard output on ranks other than 0
    FILE *kept_output;
    char *text;
    size_t text_bytes;
} present;

void bench_world_report_begin(void)
{
    present.records = json_array();
    present.text = NULL;
    present.output = bench_world_rank() == 0 ? NULL : open_memstream(&present.text, &present.text_bytes);
    present.kept_output = stdout;
    if (present.output)
        stdout = present.output;
}

void bench_world_report_end(void)
{
    stdout = present.kept_output;
    if (present.output)
        fclose(present.output);
    free(present.text);
    json_decref(present.records);
    memset(&present, 0, sizeof present);
}

int bench_world_record(json_t *record)
{
    if (bench_world_rank() == 0)
        return bench_file_append(record);
    assert(present.records);
    json_array_append_new(present.records, record);
    return ERR_NONE;
}

// Returns this rank's result, output and records as JSON text. Null: out of memory.
static char *report_text(int code, size_t printed_count, size_t skipped_count)
{
    if (present.output)
        fflush(present.output);
    json_t *report =
        json_pack("{s:i, s:s, s:s, s:I, s:I, s:O}", "code", code, "message", code == ERR_NONE ? "" : err_message(),
                  "output", present.text ? present.text : "", "printed", (json_int_t)printed_count, "skipped",
                  (json_int_t)skipped_count, "records", present.records);
    char *text = json_dumps(report, JSON_COMPACT);
    json_decref(report);
    return text;
}

static int take_report(const char *text, int rank, int *code, size_t *printed_count, size_t *skipped_count)
{
    size_t i;
    json_t *record, *report = json_loads(text, 0, NULL);
    const char *output = json_string_value(json_object_get(report, "output"));
    const char *message = json_string_value(json_object_get(report, "message"));
    if (!output || !message) {
        json_decref(report);
        return err_set(ERR_MEMORY, "no memory for the results of rank %d", rank);
    }
    if (*output && *output != '{')
        printf("\nrank %d on host %s\n", rank, bench_world_host(rank));
    fputs(output, stdout);
    int rc = ERR_NONE, theirs = (int)json_integer_value(json_object_get(report, "code"));
    json_array_foreach (json_object_get(report, "records"), i, record)
        if (rc == ERR_NONE)
            rc = bench_file_append(json_incref(record));
    *printed_count += (size_t)json_integer_value(json_object_get(report, "printed"));
    *skipped_count += (size_t)json_integer_value(json_object_get(report, "skipped"));
    if (theirs != ERR_NONE && *code == ERR_NONE)
        *code = err_set(theirs, "rank %d on host %s: %s", rank, bench_world_host(rank), message);
    json_decref(report);
    return rc;
}

// Sends every rank's report to rank 0, at the end of a benchmark of hosts, after an error too.
static int gather_reports(int code, size_t *printed_count, size_t *skipped_count)
{
    char **all = NULL, *text = report_text(code, *printed_count, *skipped_count);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for the results of this rank");
    // The calls below may overwrite the message of this rank's error.
    char message[2048];
    snprintf(message, sizeof message, "%s", err_message());
    int rc = bench_world_gather(text, &all);
    if (rc != ERR_NONE)
        bench_world_break();
    if (rc == ERR_NONE && code != ERR_NONE)
        err_set(code, "%s", message);
    for (int rank = 1; rank < bench_world_size() && all && rc == ERR_NONE; rank++)
        rc = take_report(all[rank], rank, &code, printed_count, skipped_count);
    for (int rank = 0; rank < bench_world_size() && all; rank++)
        free(all[rank]);
    free(all);
    free(text);
    return rc == ERR_NONE ? code : rc;
}

int bench_world_end(int code, size_t *printed_count, size_t *skipped_count)
{
    if (!present.records)
        return code;
    if (!bench_world_is_together())
        return gather_reports(code, printed_count, skipped_count);
    if (code != ERR_NONE) {
        bench_world_break();
        comm_abort(bench_world_comm(), err_message());
    }
    return code;
}

bool bench_world_prints_error(int code)
{
    return bench_world_rank() == 0 || (code != ERR_PEER && code != ERR_USAGE);
}
