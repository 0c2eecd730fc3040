// SPDX-License-Identifier: Apache-2.0

#include "base/err.h"
#include "base/file.h"
#include "base/page.h"
#include "base/size.h"
#include "plan/planner/plan_print.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { COLOUR_COUNT = 11 };  // of base/page.html, c0 to c10

// A part of the memory: a line of what a GPU implementation holds, or a kind of the reference's ledger.
static int part_count(const struct plan *plan)
{
    return plan->device.line_count > 0 ? plan->device.line_count : (int)KIND_COUNT;
}

static const char *part_name(const struct plan *plan, int part)
{
    return plan->device.line_count > 0 ? plan->device.lines[part].name : ledger_kind_name((enum ledger_kind)part);
}

static uint64_t part_bytes(const struct plan *plan, int part, int tier)
{
    return plan->device.line_count > 0 ? plan->device.lines[part].bytes[tier] : plan->held_bytes[tier][part];
}

static json_t *colour_of(int part)
{
    return page_text("c%d", part % COLOUR_COUNT);
}

// x and width: in hundredths of a lane.
static json_t *bar(json_t *colour, double x, double width, json_t *title)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "colour", colour, "x", page_number(x), "width", page_number(width),
                     "title", title);
}

// A lane for one tier: parts one after the other, with a mark where the machine's memory ends.
static json_t *tier_of(struct page *page, const struct plan *plan, int tier)
{
    double needed = (double)plan->needed_bytes[tier], has = (double)plan->available_bytes[tier], x = 0;
    double scale = 100 / fmax(needed, has);
    char needed_text[SIZE_TEXT_BYTES], has_text[SIZE_TEXT_BYTES];
    json_t *bars = json_array();
    for (int i = 0; i < part_count(plan); i++) {
        double width = (double)part_bytes(plan, i, tier) * scale;
        if (width > 0)
            page_add(
                page, bars,
                bar(colour_of(i), x, width,
                    page_text("%s %s", part_name(plan, i), size_short_text(part_bytes(plan, i, tier), needed_text))));
        x += width;
    }
    if (needed > has)
        page_add(page, bars,
                 bar(json_string("critical"), has * scale, 0.4, json_string("end of the machine's memory")));
    return json_pack("{s:s, s:o, s:o}", "name", ledger_tier_name((enum ledger_tier)tier), "text",
                     page_text("%s of %s", size_short_text(plan->needed_bytes[tier], needed_text),
                               size_short_text(plan->available_bytes[tier], has_text)),
                     "bars", bars);
}

static void put_memory(struct page *page, const struct plan *plan)
{
    json_t *rows = json_array(), *keys = json_array();
    for (int tier = 0; tier < TIER_COUNT; tier++)
        if (plan->needed_bytes[tier] > 0)
            page_add(page, rows, tier_of(page, plan, tier));
    for (int i = 0; i < part_count(plan); i++)
        page_add(page, keys, json_pack("{s:o, s:s}", "colour", colour_of(i), "name", part_name(plan, i)));
    page_set(page, page_section(page, "lanes", "Memory of a rank", rows), "keys", keys);
}

// Operations of a lane closer than half a thousandth of the step share one bar.
static json_t *lane_of(struct page *page, const struct plan *plan, int lane, const bool *critical)
{
    json_t *bars = json_array();
    double begin_s = 0, end_s = 0;
    for (size_t i = 0, next; i < plan->event_count; i = next) {
        next = i + 1;
        if ((int)plan->events[i].lane != lane)
            continue;
        begin_s = (double)plan->events[i].begin_ns * 1e-9;
        for (end_s = (double)plan->events[i].end_ns * 1e-9; next < plan->event_count; next++) {
            const struct executor_event *event = &plan->events[next];
            if ((int)event->lane != lane)
                continue;
            if ((double)event->begin_ns * 1e-9 > end_s + plan->step_s / 2000 || critical[next] != critical[i])
                break;
            end_s = (double)event->end_ns * 1e-9;
        }
        page_add(page, bars,
                 bar(json_string(critical[i] ? "critical" : "c0"), 100 * begin_s / plan->step_s,
                     fmax(100 * (end_s - begin_s) / plan->step_s, 0.03), json_null()));
    }
    return json_pack("{s:s, s:o}", "name", ledger_lane_name((enum lane)lane), "bars", bars);
}

static void put_lanes(struct page *page, const struct plan *plan, const bool *critical)
{
    char title[64];
    json_t *rows = json_array();
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (plan->busy_s[lane] > 0)
            page_add(page, rows, lane_of(page, plan, lane, critical));
    snprintf(title, sizeof title, "A step of %.3f s", plan->step_s);
    json_t *section = page_section(page, "lanes", title, rows);
    page_set(page, section, "note",
             json_string("Busy times of each lane; lanes that are busy at the same time overlap."));
    page_set(page, section, "keys",
             json_pack("[{s:s, s:s}, {s:s, s:s}]", "colour", "critical", "name", "on the critical path", "colour", "c0",
                       "name", "off the critical path"));
}

// Marks the events of the critical path, from the end of the step back along what each waited for.
static bool *find_critical(const struct plan *plan)
{
    bool *critical = calloc(plan->event_count + 1, sizeof *critical);
    for (long at = plan->last_event; critical && at != EXECUTOR_NO_EVENT; at = plan->events[at].after)
        critical[at] = true;
    return critical;
}

// The text that the command prints; null: no memory.
static json_t *printed(const struct plan_setting *setting, const struct plan *plan)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return NULL;
    plan_print(setting, plan, memory);
    plan_explain(setting, plan, memory);
    json_t *string = fclose(memory) == 0 ? page_text("%s", text) : NULL;
    free(text);
    return string;
}

static int put_page(const struct plan_setting *setting, const struct plan *plan, const bool *critical, FILE *out)
{
    char reason[PLAN_REASON_BYTES], tokens[SIZE_TEXT_BYTES];
    int nodes = plan_machine_nodes(setting->machine, setting->world);
    struct page page = page_open(json_pack(
        "{s:o, s:o, s:s, s:o}", "title", page_text("plan: %s", setting->model->name), "heading",
        page_text("%s on %d device%s of %s, %d node%s", setting->model->name, setting->world,
                  setting->world > 1 ? "s" : "", setting->machine->name, nodes, nodes > 1 ? "s" : ""),
        "verdict", plan->fits_all ? "FITS" : "DOES NOT FIT", "meaning",
        page_text("%s%sa step takes %.3f s: %s tokens/s", plan_reason(plan, reason), plan->fits_all ? "" : "; ",
                  plan->step_s, size_text((uint64_t)((double)plan->tokens / plan->step_s), tokens))));
    put_memory(&page, plan);
    put_lanes(&page, plan, critical);
    page_section(&page, "text", "Details", printed(setting, plan));
    return page_html(&page, out);
}

int plan_html(const struct plan_setting *setting, const struct plan *plan, const char *path)
{
    assert(plan->events);
    struct file_output output;
    TRY(file_output_open(path, &output));
    bool *critical = find_critical(plan);
    int code = critical ? put_page(setting, plan, critical, output.out) : err_set(ERR_MEMORY, "no memory for a page");
    free(critical);
    return file_output_close(&output, code);
}
