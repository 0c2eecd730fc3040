// SPDX-License-Identifier: Apache-2.0
// The verdict over a fleet: a line of JSON for each host (fleet.schema.json), and a page.
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdict_names[FLEET_VERDICT_COUNT] = {"pull", "look at", "not measured", "in service"};

// The command to run next on the host; null: its own `command`.
static const struct {
    const char *name, *next;
} whats[FLEET_WHAT_COUNT] = {
    [FLEET_DIGEST] = {"digest", "zerogauge soak --hours 24 --state soak.json"},
    [FLEET_ARITHMETIC] = {"arithmetic", "zerogauge soak --hours 24 --state soak.json"},
    [FLEET_PREFLIGHT] = {"preflight", "zerogauge preflight --seconds 60"},
    [FLEET_DIAGNOSTIC] = {"diagnostic", "dcgmi diag --run 3 --json"},
    [FLEET_UNVERIFIED] = {"unverified", "zerogauge validate --out again"},
    [FLEET_SLOW] = {"slow", NULL},
    [FLEET_INVALID] = {"invalid", "zerogauge validate --out again"},
    [FLEET_WARNED] = {"warned", "dcgmi diag --run 3 --json"},
    [FLEET_FIRMWARE] = {"firmware", "zerogauge info --json"},
    [FLEET_INCOMPLETE] = {"incomplete", NULL},
    [FLEET_MISSING] = {"missing", NULL},
};

static json_t *next_text(const struct fleet_host *host)
{
    size_t what = 0;
    while (what < FLEET_WHAT_COUNT && !host->reasons[what].text)
        what++;
    if (what == FLEET_WHAT_COUNT)
        return json_null();
    return whats[what].next == NULL ? page_text("%s", host->command) : json_string(whats[what].next);
}

static json_t *reasons_json(const struct fleet_host *host)
{
    json_t *reasons = json_array();
    for (size_t what = 0; what < FLEET_WHAT_COUNT; what++) {
        const struct fleet_reason *reason = &host->reasons[what];
        if (reason->text)
            json_array_append_new(reasons,
                                  json_pack("{s:s, s:o, s:o, s:I, s:I}", "what", whats[what].name, "text",
                                            text_json(reason->text), "deviations", page_number(reason->deviations),
                                            "times", (json_int_t)reason->times, "runs", (json_int_t)reason->runs));
    }
    return reasons;
}

static json_t *kind_text(const struct fleet *fleet, const struct fleet_host *host)
{
    return host->hardware == 0 ? json_null()
                               : page_text("%s; %s", fleet->names[host->hardware], fleet->names[host->firmware]);
}

static int put_line(const struct fleet *fleet, const struct fleet_host *host, FILE *out)
{
    json_t *line = json_pack("{s:s, s:i, s:o, s:s, s:o, s:o, s:o, s:I, s:I}", "record", "fleet", "schema", 1, "host",
                             text_json(host->name), "verdict", verdict_names[host->verdict], "reasons",
                             reasons_json(host), "next", next_text(host), "kind", kind_text(fleet, host), "kind_hosts",
                             (json_int_t)host->kind_count, "runs", (json_int_t)host->run_count);
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(line);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a fleet");
    fprintf(out, "%s\n", text);
    free(text);
    return ERR_NONE;
}

// --- the page ---

static void add_rows(struct page *page, json_t *rows, const struct fleet_host *host)
{
    for (size_t what = 0; what < FLEET_WHAT_COUNT; what++) {
        const struct fleet_reason *reason = &host->reasons[what];
        char number[NUMBER_TEXT_BYTES];
        if (!reason->text)
            continue;
        json_t *row = json_array();
        page_add(page, row, page_text("%s", host->name));
        page_add(page, row, json_pack("{s:s}", "verdict", verdict_names[host->verdict]));
        page_add(page, row, page_text("%s: %s", whats[what].name, reason->text));
        page_add(page, row, page_text("%s", isnan(reason->deviations) ? "" : number_text(reason->deviations, number)));
        page_add(page, row, reason->runs > 0 ? page_text("%zu of %zu", reason->times, reason->runs) : json_string(""));
        page_add(page, row, json_pack("{s:o}", "code", next_text(host)));
        page_add(page, rows, row);
    }
}

static bool has_other_bits(const struct fleet_host *host)
{
    return host->reasons[FLEET_DIGEST].text != NULL;
}

// Sorted: hosts with other bits, then by verdict, then by name.
static void add_hosts(struct page *page, const struct fleet *fleet)
{
    json_t *rows = json_array(), *in_service = json_array();
    for (int bits = 1; bits >= 0; bits--)
        for (int verdict = 0; verdict < FLEET_VERDICT_COUNT; verdict++)
            for (size_t h = 0; h < fleet->host_count; h++)
                if (fleet->hosts[h].verdict == (enum fleet_verdict)verdict && has_other_bits(&fleet->hosts[h]) == bits)
                    add_rows(page, rows, &fleet->hosts[h]);
    page_table(page, "Not in service", "Host|Verdict|Reason|Robust deviations|In its runs|Next", rows);
    for (size_t h = 0; h < fleet->host_count; h++) {
        const struct fleet_host *host = &fleet->hosts[h];
        if (host->verdict != FLEET_IN_SERVICE)
            continue;
        json_t *row = json_array();
        page_add(page, row, page_text("%s", host->name));
        page_add(page, row, json_pack("{s:s}", "verdict", verdict_names[host->verdict]));
        page_add(page, row, page_text("%zu", host->run_count));
        page_add(page, row, page_text("%zu", host->kind_count));
        page_add(page, row, kind_text(fleet, host));
        page_add(page, in_service, row);
    }
    page_table(page, "In service", "Host|Verdict|Runs|Hosts of its kind|Kind", in_service);
}

static int put_page(const struct fleet *fleet, const size_t counts[FLEET_VERDICT_COUNT], const char *path)
{
    struct file_output file;
    TRY(file_output_open(path, FILE_NEW, &file));
    struct page page = page_open(
        json_pack("{s:s, s:s, s:o, s:o}", "title", "zerogauge: a fleet", "heading", "A fleet of hosts", "verdict",
                  page_text("%zu of %zu in service", counts[FLEET_IN_SERVICE], fleet->host_count), "meaning",
                  page_text("%zu to pull, %zu to look at, %zu not measured", counts[FLEET_PULL], counts[FLEET_LOOK_AT],
                            counts[FLEET_NOT_MEASURED])));
    page_fact(&page, "Records", page_text("%zu, %zu other files left out", fleet->run_count, fleet->left_out_count));
    page_fact(&page, "Compared",
              page_text("with hosts of the same processor, memory, GPUs, disks and firmware; a host alone of its kind "
                        "by its own baselines"));
    page_fact(&page, "Robust deviation",
              page_text("1.4826 x the median distance from the median, at least a tenth of it; slow beyond 3.5"));
    add_hosts(&page, fleet);
    return file_output_close(&file, page_html(&page, file.out));
}

static int put_all(const struct fleet *fleet, const char *page, FILE *out, size_t counts[FLEET_VERDICT_COUNT])
{
    for (int bits = 1; bits >= 0; bits--)
        for (size_t h = 0; h < fleet->host_count; h++) {
            if (has_other_bits(&fleet->hosts[h]) != bits)
                continue;
            counts[fleet->hosts[h].verdict]++;
            TRY(put_line(fleet, &fleet->hosts[h], out));
        }
    return page ? put_page(fleet, counts, page) : ERR_NONE;
}

int fleet_report(const char *folder, const char *page, FILE *out, bool *in_service)
{
    struct fleet fleet;
    size_t counts[FLEET_VERDICT_COUNT] = {0};
    int rc = fleet_read(folder, &fleet);
    if (rc == ERR_NONE)
        rc = fleet_judge(&fleet);
    if (rc == ERR_NONE)
        rc = put_all(&fleet, page, out, counts);
    *in_service = rc == ERR_NONE && counts[FLEET_IN_SERVICE] == fleet.host_count;
    if (rc == ERR_NONE)
        text_say("%zu hosts: %zu in service, %zu to pull, %zu to look at, %zu not measured", fleet.host_count,
                 counts[FLEET_IN_SERVICE], counts[FLEET_PULL], counts[FLEET_LOOK_AT], counts[FLEET_NOT_MEASURED]);
    fleet_close(&fleet);
    return rc;
}
