// SPDX-License-Identifier: Apache-2.0
// What the output of `dcgmi diag --json` says about a host: of DCGM 2 and 3 ("DCGM GPU Diagnostic", gpu_id), of DCGM 4
// ("DCGM Diagnostic", entity_id, test_summary), and of several iterations. It names no host and no time, so that a test
// that failed counts whichever output is the later one. That of `dcgmi mndiag --json`, of DCGM 4.3 and later, has no
// time either, but `hosts` by host_id.
#include "results/page/fleet_part.h"

#include "base/err.h"
#include "results/page/result_view.h"

#include <stdio.h>
#include <string.h>

// Severities with which DCGM leaves a GPU in use (dcgm_errors.h). The output says "Fail" for a warning, too.
enum { SEVERITY_MONITOR = 1, SEVERITY_CONFIG = 5 };

struct diag {
    struct fleet_run *run;
    bool ran;  // a test, which was not skipped
};

static const json_t *diagnostic_of(const json_t *value)
{
    const json_t *of_gpus = json_object_get(value, "DCGM GPU Diagnostic");
    return of_gpus ? of_gpus : json_object_get(value, "DCGM Diagnostic");
}

static bool is_of_nodes(const json_t *value)
{
    return strcmp(view_text(value, "DCGM Diagnostic"), "DCGM Multi-Node Diagnostic") == 0;
}

bool fleet_is_dcgm(const json_t *value)
{
    return is_of_nodes(value) || json_is_object(diagnostic_of(value)) ||
           json_is_object(diagnostic_of(json_array_get(json_object_get(value, "iterations"), 0)));
}

// The words of the first warning, or of the first that is not mild. DCGM 2 has one text.
static const char *words_of(const json_t *result, bool *mild)
{
    const json_t *warnings = json_object_get(result, "warnings"), *one;
    const char *words = json_is_string(warnings) ? json_string_value(warnings) : "";
    size_t i, count = 0;
    bool grave = false;
    json_array_foreach (warnings, i, one) {
        json_int_t severity = json_integer_value(json_object_get(one, "error_severity"));
        bool is_grave = severity != SEVERITY_MONITOR && severity != SEVERITY_CONFIG;
        const char *text = view_text(one, *view_text(one, "warning") ? "warning" : "warnings");
        if (!json_is_object(one))
            continue;
        if (!*words || (is_grave && !grave))
            words = text;
        grave |= is_grave;
        count++;
    }
    *mild = count > 0 && !grave;
    return words;
}

// "GPU 1: "; "": the result is of no GPU alone.
static void place_of(const json_t *result, char out[64])
{
    static const char *const keys[] = {"entity_id", "gpu_id", "gpu_ids"};
    const char *group = view_text(result, "entity_group");
    *out = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *id = json_object_get(result, keys[i]);
        if (json_is_integer(id))
            snprintf(out, 64, "%.20s %lld: ", *group ? group : "GPU", (long long)json_integer_value(id));
        else if (json_is_string(id))
            snprintf(out, 64, "GPU %.40s: ", json_string_value(id));
    }
}

static int take_result(struct diag *diag, const json_t *test, const json_t *result)
{
    const char *status = view_text(result, "status");
    char place[64], text[FLEET_TEXT_BYTES];
    bool mild, passed = strcmp(status, "Pass") == 0;
    if (*status == '\0' || strcmp(status, "Skip") == 0 || strcmp(status, "Not Run") == 0)
        return ERR_NONE;
    diag->ran = true;
    const char *words = words_of(result, &mild);
    if (!passed && *words == '\0')
        words = words_of(json_object_get(test, "test_summary"), &mild);
    if (passed && *words == '\0')
        return ERR_NONE;
    place_of(result, place);
    snprintf(text, sizeof text, "DCGM %.60s: %s%.20s%s%.1000s", view_text(test, "name"), place, status,
             *words ? ": " : "", words);
    return fleet_say(diag->run, strcmp(status, "Fail") == 0 && !mild ? FLEET_DIAGNOSTIC : FLEET_WARNED, text);
}

static int take_tests(struct diag *diag, const json_t *value)
{
    const json_t *diagnostic = diagnostic_of(value), *categories = json_object_get(diagnostic, "test_categories");
    const char *error = view_text(diagnostic, "runtime_error");
    char text[FLEET_TEXT_BYTES];
    size_t c, t, r;
    for (c = 0; c < json_array_size(categories); c++) {
        const json_t *tests = json_object_get(json_array_get(categories, c), "tests"), *test, *result;
        json_array_foreach (tests, t, test) {
            json_array_foreach (json_object_get(test, "results"), r, result)
                TRY(take_result(diag, test, result));
            TRY(take_result(diag, test, json_object_get(test, "test_summary")));
        }
    }
    snprintf(text, sizeof text, "DCGM: %.1000s", error);
    return *error ? fleet_say(diag->run, FLEET_INCOMPLETE, text) : ERR_NONE;
}

// --- of several hosts ---

static struct fleet_part *part_of(struct fleet_source *source, const json_t *value, const json_t *of_host)
{
    const json_t *hosts = json_object_get(value, "hosts"), *id = json_object_get(of_host, "host_id"), *host;
    size_t i;
    json_array_foreach (hosts, i, host)
        if (json_is_integer(id) && json_equal(json_object_get(host, "host_id"), id))
            return fleet_part_of(source, view_text(host, "hostname"));
    return NULL;
}

// A failure that is no host's alone: the test did not run.
static int say_of_all(struct fleet_source *source, const char *words)
{
    char text[FLEET_TEXT_BYTES];
    snprintf(text, sizeof text, "DCGM: %.1000s", words);
    for (size_t i = 0; i < source->part_count; i++)
        TRY(fleet_say(source->parts[i].run, FLEET_INCOMPLETE, text));
    return ERR_NONE;
}

static int take_test_of_nodes(struct fleet_source *source, const json_t *value, const json_t *test, bool *ran)
{
    const json_t *results = json_object_get(test, "results"), *result;
    const char *error = view_text(json_object_get(test, "mpi_error"), "warning");
    size_t i;
    json_array_foreach (results, i, result) {
        struct fleet_part *part = part_of(source, value, result);
        struct diag diag = {.run = part ? part->run : NULL};
        if (part)
            TRY(take_result(&diag, test, result));
        ran[part ? part - source->parts : FLEET_PART_MAX] |= diag.ran;
    }
    return *error ? say_of_all(source, error) : ERR_NONE;
}

static int take_nodes(struct fleet_source *source, const json_t *value)
{
    const json_t *hosts = json_object_get(value, "hosts"), *categories = json_object_get(value, "test_categories"),
                 *one;
    const char *error = view_text(value, "runtime_error");
    bool ran[FLEET_PART_MAX + 1] = {false};
    size_t i, t;
    json_array_foreach (hosts, i, one)
        if (*view_text(one, "hostname"))
            fleet_name_part(source, view_text(one, "hostname"));
    if (source->part_count == FLEET_PART_MAX)
        return fleet_say_of_file(source, FLEET_UNVERIFIED, "names more hosts than are read of one file");
    if (source->part_count == 0)
        return fleet_say_of_file(source, FLEET_INCOMPLETE, *error ? error : "names no host");
    TRY(fleet_add_runs(source, "dcgmi mndiag"));
    for (i = 0; i < source->part_count; i++)
        source->parts[i].run->lasts = true;
    for (i = 0; i < json_array_size(categories); i++) {
        const json_t *tests = json_object_get(json_array_get(categories, i), "tests");
        json_array_foreach (tests, t, one)
            TRY(take_test_of_nodes(source, value, one, ran));
    }
    for (i = 0; i < source->part_count; i++)
        if (!ran[i])
            TRY(fleet_say(source->parts[i].run, FLEET_INCOMPLETE, "DCGM: no test ran"));
    return ERR_NONE;
}

int fleet_take_dcgm(struct fleet_source *source, const json_t *value)
{
    static const char ending[] = ".dcgm";
    const json_t *iterations = json_object_get(value, "iterations");
    size_t length = strlen(source->host), tail = sizeof ending - 1, count = json_array_size(iterations);
    struct diag diag = {0};
    char text[FLEET_TEXT_BYTES];
    if (is_of_nodes(value))
        return take_nodes(source, value);
    if (length > tail && strcmp(source->host + length - tail, ending) == 0)
        source->host[length - tail] = '\0';
    fleet_name_part(source, source->host);
    TRY(fleet_add_runs(source, "dcgmi diag"));
    diag.run = source->parts[0].run;
    diag.run->lasts = true;
    for (size_t i = 0; i < count || (i == 0 && !iterations); i++)
        TRY(take_tests(&diag, iterations ? json_array_get(iterations, i) : value));
    snprintf(text, sizeof text, "DCGM: %.1000s", view_text(value, "Warning"));
    if (strcmp(view_text(value, "Overall Result"), "Fail") == 0)
        TRY(fleet_say(diag.run, FLEET_INCOMPLETE, text));
    return diag.ran ? ERR_NONE : fleet_say(diag.run, FLEET_INCOMPLETE, "DCGM: no test ran");
}
