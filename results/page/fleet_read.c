// SPDX-License-Identifier: Apache-2.0
// Reads the records of a fleet. A result file of one host, or the output of DCGM, is named by the first folder below
// the fleet's, or by itself; under a launcher, in the lines of preflight and soak, and in the output of nccl-tests,
// hosts are named.
#include "results/page/fleet_part.h"

#include "base/err.h"
#include "results/page/result_folder.h"
#include "results/page/result_view.h"
#include "results/record/record_verify.h"

#include <stdlib.h>
#include <string.h>

static int verify(struct fleet_source *source, const struct result_file *file)
{
    char *refusals = NULL;
    size_t bytes, count = 0;
    FILE *out = open_memstream(&refusals, &bytes);
    int rc = out ? record_verify(file, out, &count) : err_set(ERR_MEMORY, "no memory for a fleet");
    if (out)
        fclose(out);
    if (rc == ERR_NONE)
        rc = count > 0 ? fleet_say_of_record(source, FLEET_UNVERIFIED, refusals) : fleet_take_result(source, file);
    free(refusals);
    return rc;
}

static int read_result(struct fleet_source *source, const char *lines, size_t bytes)
{
    struct result_file file;
    int rc = result_parse(source->path, lines, bytes, &file);
    if (rc == ERR_MEMORY)
        return rc;
    if (rc != ERR_NONE)
        return fleet_say_of_record(source, FLEET_UNVERIFIED, err_message());
    rc = file.end ? verify(source, &file) : fleet_say_of_file(source, FLEET_INCOMPLETE, "has no end: the run failed");
    result_close(&file);
    return rc;
}

// --- preflight and soak ---

static int read_preflight(struct fleet_source *source, const json_t *line)
{
    const json_t *checks = json_object_get(line, "checks"), *check, *failed = NULL;
    struct fleet_run *run;
    char text[FLEET_TEXT_BYTES];
    size_t i;
    json_array_foreach (checks, i, check)
        if (!failed && strcmp(view_text(check, "state"), "FAIL") == 0)
            failed = check;
    bool says_ok = strcmp(view_text(line, "verdict"), "ok") == 0;
    if (json_array_size(checks) == 0 || says_ok == (failed != NULL))
        return fleet_say_of_file(source, FLEET_UNVERIFIED, "a preflight's verdict is not that of its checks");
    fleet_name_part(source, source->host);
    TRY(fleet_add_runs(source, "preflight"));
    run = source->parts[0].run;
    snprintf(run->started, sizeof run->started, "%s", view_text(line, "started"));
    run->digests = json_incref(json_object_get(line, "digests"));
    snprintf(text, sizeof text, "preflight: %s: %s", view_text(failed, "check"), view_text(failed, "text"));
    return failed ? fleet_say(run, FLEET_PREFLIGHT, text) : ERR_NONE;
}

// All ranks' hosts, those without an event, too; the state of one rank names it alone.
static int read_soak(struct fleet_source *source, const json_t *line)
{
    const json_t *hosts = json_object_get(line, "hosts"), *events = json_object_get(line, "events"), *one;
    size_t i;
    fleet_name_part(source, view_text(line, "host"));
    json_array_foreach (hosts, i, one)
        fleet_name_part(source, view_text(one, "host"));
    json_array_foreach (events, i, one)
        fleet_name_part(source, view_text(one, "host"));
    TRY(fleet_add_runs(source, "soak"));
    json_array_foreach (events, i, one) {
        char text[FLEET_TEXT_BYTES];
        struct fleet_part *part = fleet_part_of(source, view_text(one, "host"));
        snprintf(text, sizeof text, "soak: %s", view_text(one, "text"));
        TRY(part ? fleet_say(part->run, FLEET_ARITHMETIC, text) : ERR_NONE);
    }
    return ERR_NONE;
}

// --- all that is no result file ---

typedef int value_reader(struct fleet_source *source, const json_t *value);

// Null: the value is none of these.
static value_reader *reader_of(const json_t *value)
{
    return view_is(value, "preflight") ? read_preflight
           : view_is(value, "soak")    ? read_soak
           : fleet_is_dcgm(value)      ? fleet_take_dcgm
           : fleet_is_nccl(value)      ? fleet_take_nccl
                                       : NULL;
}

// Values one after the other: lines, or a value of several lines.
static int read_values(struct fleet_source *source, const char *text, size_t bytes)
{
    json_error_t error = {0};
    for (size_t at = 0; at + strspn(text + at, " \t\r\n") < bytes; at += (size_t)error.position) {
        json_t *value = json_loadb(text + at, bytes - at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
        value_reader *reader = reader_of(value);
        const char *host = view_text(value, "host");
        if (*host)
            snprintf(source->host, sizeof source->host, "%s", host);
        source->part_count = 0;
        int rc = reader ? reader(source, value)
                        : fleet_say_of_file(source, FLEET_UNVERIFIED, "is followed by something else");
        json_decref(value);
        TRY(rc);
        if (!reader)
            break;
    }
    return ERR_NONE;
}

static int read_file(void *context, const char *path, const char *name)
{
    struct fleet_source source = {.fleet = context, .path = path, .name = name};
    const char *slash = strchr(name, '/');
    size_t bytes;
    char *text;
    snprintf(source.host, sizeof source.host, "%.*s", (int)((slash ? slash : strrchr(name, '.')) - name), name);
    int rc = file_read_text(path, RECORD_FILE_BYTES_MAX, &text, &bytes);
    if (rc != ERR_NONE)
        return rc == ERR_MEMORY ? rc : fleet_say_of_record(&source, FLEET_UNVERIFIED, err_message());
    json_error_t error;
    json_t *first = json_loadb(text, bytes, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    bool is_lines = strcmp(strrchr(name, '.'), ".jsonl") == 0;
    if (view_is(first, "run") || (!first && is_lines))
        rc = read_result(&source, text, bytes);
    else if (reader_of(first))
        rc = read_values(&source, text, bytes);
    else
        source.fleet->left_out_count++;
    json_decref(first);
    free(text);
    return rc;
}

int fleet_read(const char *folder, struct fleet *out)
{
    uint32_t none;
    *out = (struct fleet){.folder = folder, .texts = json_object(), .indices = json_object()};
    TRY(fleet_number(out, "unknown", &none));
    TRY(result_folder_visit(folder, "jsonl|json", RESULT_FOLDER_DEPTH, read_file, out));
    return out->host_count > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s: has no record of a host", folder);
}

void fleet_close(struct fleet *fleet)
{
    for (size_t h = 0; h < fleet->host_count; h++) {
        struct fleet_host *host = &fleet->hosts[h];
        for (size_t i = 0; i < host->run_count; i++) {
            free(host->runs[i].text);
            free(host->runs[i].figures);
            json_decref(host->runs[i].digests);
        }
        for (size_t i = 0; i < FLEET_WHAT_COUNT; i++)
            free(host->reasons[i].text);
        free(host->runs);
        free(host->name);
    }
    free(fleet->hosts);
    free(fleet->names);
    json_decref(fleet->texts);
    json_decref(fleet->indices);
}
