// SPDX-License-Identifier: Apache-2.0
// Results: a case's record (results/RECORDS.md) and its text; progress, skips and the exit status.
#include "bench/harness/bench_file.h"
#include "bench/harness/bench_world.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "base/terminal.h"
#include "results/limits/accepted_range.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { PROGRESS_S = 10 };

// Counts of the running benchmark; a process runs one at a time.
static size_t printed_count, skipped_count;

double bench_ratio(const struct bench_record *record)
{
    assert(record->baseline);
    double work = bench_median(record->samples), baseline = bench_median(record->baseline);
    return record->lower_is_better ? baseline / work : work / baseline;
}

static json_t *samples_json(const struct bench_samples *samples)
{
    json_t *array = json_array();
    for (size_t i = 0; i < samples->count; i++)
        json_array_append_new(array, json_real(samples->values[i]));
    return array;
}

// Integers are written without a decimal point.
static json_t *number_json(double number)
{
    return number == floor(number) && number < 0x1p62 ? json_integer((json_int_t)number) : json_real(number);
}

static json_t *baseline_json(const struct bench_record *record)
{
    if (!record->baseline)
        return json_null();
    return json_pack("{s:s, s:o, s:f, s:f, s:f, s:s, s:o}", "name", record->baseline_name, "samples",
                     samples_json(record->baseline), "median", bench_median(record->baseline), "p10",
                     bench_quantile(record->baseline, 0.1), "p90", bench_quantile(record->baseline, 0.9), "unit",
                     record->unit, "items",
                     number_json(record->baseline_items > 0 ? record->baseline_items : record->items));
}

// Returns the record; it shares description, detail and timeline. Null: out of memory.
static json_t *record_json(const struct bench_record *record)
{
    json_t *line = json_pack(
        "{s:s, s:s, s:O, s:o, s:f, s:f, s:f, s:s, s:b, s:o, s:f, s:b, s:o, s:o}", "record", "bench", "name",
        record->name, "case", record->description, "samples", samples_json(record->samples), "median",
        bench_median(record->samples), "p10", bench_quantile(record->samples, 0.1), "p90",
        bench_quantile(record->samples, 0.9), "unit", record->unit, "lower_is_better", record->lower_is_better, "items",
        number_json(record->items), "elapsed_s", (double)(clock_now_ns() - record->begin_ns) * 1e-9, "verified", 1,
        "yardstick", baseline_json(record), "ratio", record->baseline ? json_real(bench_ratio(record)) : json_null());
    if (line && record->detail)
        json_object_set(line, "detail", record->detail);
    if (line && record->timeline)
        json_object_set(line, "timeline", record->timeline);
    return line;
}

static int print_json(const json_t *line)
{
    // Six digits resolve more than the clock does.
    int failed = json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    return failed || putchar('\n') == EOF ? err_set(ERR_IO, "cannot write the result") : ERR_NONE;
}

static void print_case(const struct bench_record *record)
{
    const char *key;
    json_t *value;
    printf("%s", record->name);
    json_object_foreach (record->description, key, value) {
        if (json_is_string(value))
            printf("  %s=%s", key, json_string_value(value));
        else if (json_is_integer(value))
            printf("  %s=%lld", key, (long long)json_integer_value(value));
        else if (json_is_boolean(value))
            printf("  %s=%s", key, json_is_true(value) ? "yes" : "no");
    }
    double median = bench_median(record->samples);
    printf("\n         %.4g %s (%.4g to %.4g in %zu runs)", median, record->unit, bench_quantile(record->samples, 0.1),
           bench_quantile(record->samples, 0.9), record->samples->count);
    if (record->item_bytes > 0)
        printf("  %.1f GB/s", record->item_bytes / median);
    if (record->baseline)
        printf("  %s: %.4g", record->baseline_name, bench_median(record->baseline));
    printf("\n");
}

static void print_text(const struct bench_record *record)
{
    if (record->baseline)
        printf("%5.1f %%  ", 100 * bench_ratio(record));
    else
        printf("    - %%  ");
    if (record->row)
        printf("%s\n", record->row);
    else
        print_case(record);
}

static int print(const struct bench_options *options, const struct bench_record *record)
{
    json_t *line = record_json(record);
    if (!line)
        return err_set(ERR_MEMORY, "no memory for a result line");
    bench_progress("%s", "");
    int code = options->json ? print_json(line) : ERR_NONE;
    if (!options->json && !record->tabled)
        print_text(record);
    if (code == ERR_NONE && fflush(stdout) == EOF)
        code = err_set(ERR_IO, "cannot write the result");
    printed_count++;
    int filed = bench_world_record(line);
    return code != ERR_NONE ? code : filed;
}

// Under a launcher, adds to the case the rank and host that measured it, or the number of hosts that measured together.
static void describe_world(json_t *description)
{
    if (!bench_world_comm())
        return;
    if (bench_world_is_together()) {
        if (!json_object_get(description, "transport"))
            json_object_set_new(description, "transport", json_string("mpi"));
        json_object_set_new(description, "hosts", json_integer(bench_world_host_count()));
    } else {
        json_object_set_new(description, "rank", json_integer(bench_world_rank()));
        json_object_set_new(description, "host", json_string(bench_world_host(bench_world_rank())));
    }
}

int bench_print(const struct bench_options *options, struct bench_record *record)
{
    assert(record->name && record->unit && record->samples && record->samples->count > 0);
    assert(!record->baseline || record->baseline_name);
    if (record->description)
        describe_world(record->description);
    int code = record->description ? print(options, record) : err_set(ERR_MEMORY, "no memory for a result line");
    json_decref(record->description);
    json_decref(record->detail);
    json_decref(record->timeline);
    return code;
}

void bench_progress(const char *format, ...)
{
    static double said_s;
    char text[256];
    va_list arguments;
    if (bench_world_rank() > 0)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    terminal_progress("%s", text);
    if (said_s == 0)
        said_s = clock_now_s();
    if (terminal_shows_progress() || !*text || clock_now_s() < said_s + PROGRESS_S)
        return;
    said_s = clock_now_s();
    fprintf(stderr, "%s\n", text);
}

int bench_skip(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bench_progress("%s", "");
    if (bench_world_rank() == 0)
        text_say("SKIP: %s", text);
    else if (!bench_world_is_together())
        text_say("SKIP: rank %d on host %s: %s", bench_world_rank(), bench_world_host(bench_world_rank()), text);
    skipped_count++;
    return ERR_NONE;
}

int bench_skip_memory(const struct bench_options *options, const char *name, json_t *description, size_t needs_bytes,
                      size_t available_bytes)
{
    char label[BENCH_LABEL_BYTES], needs[SIZE_TEXT_BYTES], available[SIZE_TEXT_BYTES];
    if (description)
        describe_world(description);
    json_t *line = json_pack("{s:s, s:s, s:o, s:I, s:I}", "record", "skip", "name", name, "case", description,
                             "needs_bytes", (json_int_t)needs_bytes, "available_bytes", (json_int_t)available_bytes);
    if (!line)
        return err_set(ERR_MEMORY, "no memory for a result line");
    bench_skip("%s: needs %s of memory, a benchmark may take %s here", bench_label(line, label),
               size_short_text(needs_bytes, needs), size_short_text(available_bytes, available));
    int code = options->json ? print_json(line) : ERR_NONE;
    int filed = bench_world_record(line);
    return code != ERR_NONE ? code : filed;
}

int bench_exit(const char *name, int code)
{
    enum { STATUS_NOTHING_TESTED = 77 };
    bench_progress("%s", "");
    code = bench_world_end(code, &printed_count, &skipped_count);
    code = bench_file_close(name, code);
    if (code != ERR_NONE && bench_world_prints_error(code))
        text_error("zerogauge bench %s", name);
    bool nothing = code == ERR_NONE && printed_count == 0 && skipped_count > 0;
    printed_count = skipped_count = 0;
    return nothing ? STATUS_NOTHING_TESTED : err_exit_status(code);
}
