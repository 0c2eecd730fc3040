// SPDX-License-Identifier: Apache-2.0
// Writes the reports of a run next to its result file, which is verified first, as an untrusted file is.
#include "validate/validate.h"

#include "base/err.h"
#include "base/json.h"
#include "base/size.h"
#include "plan/planner/calibration.h"
#include "results/page/result_report.h"
#include "results/record/record_verify.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int write_all(const struct result_file *file, const char *folder)
{
    static const struct {
        const char *name;
        int (*write)(const struct result_view *view, FILE *out);
    } reports[] = {{"report.html", result_html}, {"report.md", result_markdown}};
    struct result_view view;
    int rc = result_view_open(file, &view);
    for (size_t i = 0; rc == ERR_NONE && i < sizeof reports / sizeof reports[0]; i++) {
        char path[PATH_MAX];
        struct file_output page;
        rc = file_join(folder, reports[i].name, path);
        if (rc == ERR_NONE)
            rc = file_output_open(path, FILE_NEW, &page);
        if (rc == ERR_NONE)
            rc = file_output_close(&page, reports[i].write(&view, page.out));
    }
    result_view_close(&view);
    return rc;
}

// Writes the measured machine for `zerogauge plan`; no file if a figure that plans need was not measured.
static int write_machine(const struct result_file *file, const char *folder)
{
    char path[PATH_MAX];
    const char *missing;
    json_t *machine;
    TRY(file_join(folder, "machine.json", path));
    TRY(calibration_make(file->lines, file->line_count, &machine, &missing));
    if (!machine)
        return ERR_NONE;
    int rc = json_write(path, FILE_NEW, machine, JSON_INDENT(2));
    json_decref(machine);
    return rc;
}

int validate_report(const char *folder)
{
    char path[PATH_MAX];
    struct result_file file;
    TRY(file_join(folder, "result.jsonl", path));
    fflush(stdout);  // refusals go to stderr
    TRY(result_open_verified(path, &file));
    int rc = write_all(&file, folder);
    if (rc == ERR_NONE)
        rc = write_machine(&file, folder);
    if (rc == ERR_NONE)
        printf("result.jsonl, report.html and report.md are in %s\n", folder);
    result_close(&file);
    return rc;
}

// Prints the summary of a run: the judged results only; the report has all of them.

static void print_arithmetic(const json_t *conformance)
{
    const char *key;
    json_t *count, *counts = json_object_get(conformance, "requirement_counts");
    printf("arithmetic  %s:", json_string_value(json_object_get(conformance, "verdict")));
    json_object_foreach (counts, key, count) {
        if (json_integer_value(count) > 0)
            printf(" %" JSON_INTEGER_FORMAT " %s", json_integer_value(count), key);
    }
    printf("\n\n");
}

// The worst finding about a line, or null.
static const struct bench_finding *finding_of(const struct validate_result *result, size_t line)
{
    const struct bench_finding *worst = NULL;
    for (size_t i = 0; i < result->findings.count; i++) {
        const struct bench_finding *finding = &result->findings.list[i];
        if (finding->line == line && (!worst || finding->verdict > worst->verdict))
            worst = finding;
    }
    return worst;
}

static void print_line(const struct result_line *line, const struct bench_finding *finding)
{
    char label[BENCH_LABEL_BYTES], measured[48], of[96] = "";
    const json_t *record = line->record, *ratio = json_object_get(record, "ratio");
    const json_t *baseline = json_object_get(record, "yardstick");
    snprintf(measured, sizeof measured, "%.4g %s", json_number_value(json_object_get(record, "median")),
             json_string_value(json_object_get(record, "unit")));
    if (json_is_object(baseline))
        snprintf(of, sizeof of, "%.4g %s", json_number_value(json_object_get(baseline, "median")),
                 json_string_value(json_object_get(baseline, "name")));
    if (json_is_number(ratio))
        printf("%6.1f %%", 100 * json_number_value(ratio));
    else
        printf("%8s", "");
    printf("  %-10s  %-50.50s  %-18s  %s\n", finding_verdict_name(finding->verdict), bench_label(record, label),
           measured, of);
}

static void print_fits(const json_t *fits)
{
    size_t i;
    json_t *fit;
    json_array_foreach (fits, i, fit) {
        char device[SIZE_TEXT_BYTES], host[SIZE_TEXT_BYTES], nvme[SIZE_TEXT_BYTES];
        const char *reason = json_string_value(json_object_get(fit, "reason"));
        const json_t *fits_here = json_object_get(fit, "fits");
        if (i == 0)
            printf("\nfits        memory of each rank on device, host, NVMe\n");
        printf("%-10s  %-11s %-14s %" JSON_INTEGER_FORMAT " ranks  %10s %10s %10s%s%s\n",
               json_is_true(fits_here)    ? "yes"
               : json_is_false(fits_here) ? "no"
                                          : "unknown",
               json_string_value(json_object_get(fit, "model")), json_string_value(json_object_get(fit, "preset")),
               json_integer_value(json_object_get(fit, "world")),
               size_short_text((uint64_t)json_integer_value(json_object_get(fit, "device_bytes")), device),
               size_short_text((uint64_t)json_integer_value(json_object_get(fit, "host_bytes")), host),
               size_short_text((uint64_t)json_integer_value(json_object_get(fit, "nvme_bytes")), nvme),
               reason ? "  " : "", reason ? reason : "");
    }
}

static void print_absent(const struct validate_setting *setting, const struct validate_result *result)
{
    for (size_t i = 0; i < setting->plan->count; i++)
        if (result->states[i] == PART_ABSENT)
            printf("not run     %s: %s\n", setting->plan->parts[i].name, result->reasons[i]);
    for (size_t i = 0; i < result->findings.count; i++)
        for (size_t s = 0; s < result->skip_count; s++)
            if (result->findings.list[i].line == result->skips[s].line)
                printf("not judged  %s\n", result->findings.list[i].text);
}

static void print_verdict(const struct validate_result *result)
{
    enum finding_verdict verdict = validate_verdict(result);
    printf("\n%s\n", finding_verdict_name(verdict));
    for (int of = FINDING_INVALID; of > FINDING_VALID; of--)
        for (size_t i = 0; i < result->findings.count; i++)
            if ((int)result->findings.list[i].verdict == of)
                printf("  %-10s  %s\n", of == (int)verdict ? "" : finding_verdict_name((enum finding_verdict)of),
                       result->findings.list[i].text);
}

void validate_table(const struct validate_setting *setting, const struct validate_result *result)
{
    printf("\n");
    if (result->conformance.record)
        print_arithmetic(result->conformance.record);
    size_t judged_count = 0;
    if (result->line_count > 0)
        printf("%8s  %-10s  %-50s  %-18s  %s\n", "ratio", "", "result", "median", "baseline");
    for (size_t i = 0; i < result->line_count; i++) {
        const struct bench_finding *finding = finding_of(result, result->lines[i].line);
        judged_count += finding != NULL;
        if (finding)
            print_line(&result->lines[i], finding);
    }
    if (judged_count < result->line_count)
        printf("%8s  and %zu more without an accepted range\n", "", result->line_count - judged_count);
    print_fits(result->fits);
    print_absent(setting, result);
    print_verdict(result);
    printf("\n%s, %.0f s", setting->level, result->seconds);
    if (strcmp(setting->level, "quick") == 0)
        printf(" of %d s", VALIDATE_QUICK_S);
    if (isfinite(result->other_load))
        printf("; %.0f %% of CPU time went to other processes", 100 * result->other_load);
    puts("");
}
