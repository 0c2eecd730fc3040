// SPDX-License-Identifier: Apache-2.0
// Writes the reports of a run next to its result file, which is verified first, as an untrusted file is.
#include "validate/validate.h"

#include "plan/planner/calibration.h"
#include "base/err.h"
#include "base/file.h"
#include "results/record/record_verify.h"
#include "results/page/result_report.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static int csv(const struct result_view *view, FILE *out)
{
    return result_csv(view, true, out);
}

static int write_one(const struct result_view *view, const char *folder, const char *name,
                     int (*write)(const struct result_view *, FILE *))
{
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    FILE *out;
    TRY(file_create(path, &out));
    return file_finish(out, path, write(view, out));
}

static int write_all(const struct result_file *file, const char *folder)
{
    struct result_view view;
    int rc = result_view_open(file, &view);
    if (rc == ERR_NONE)
        rc = write_one(&view, folder, "report.html", result_html);
    if (rc == ERR_NONE)
        rc = write_one(&view, folder, "report.md", result_markdown);
    if (rc == ERR_NONE)
        rc = write_one(&view, folder, "results.csv", csv);
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
    int failed = json_dump_file(machine, path, JSON_INDENT(2));
    json_decref(machine);
    return failed ? err_set(ERR_IO, "%s: cannot be written", path) : ERR_NONE;
}

int validate_report(const char *folder)
{
    char path[PATH_MAX];
    struct result_file file;
    size_t refusal_count;
    TRY(file_join(folder, "result.jsonl", path));
    TRY(result_open(path, &file));
    int rc = record_verify(&file, stderr, &refusal_count);
    if (rc == ERR_NONE && refusal_count > 0)
        rc = err_set(ERR_CHECK, "%s: %zu statements do not verify; no report written", path, refusal_count);
    if (rc == ERR_NONE)
        rc = write_all(&file, folder);
    if (rc == ERR_NONE)
        rc = write_machine(&file, folder);
    result_close(&file);
    return rc;
}
