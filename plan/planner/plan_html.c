// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_html.h"

#include "base/err.h"
#include "base/file.h"
#include "plan/planner/plan_print.h"
#include "base/html_page.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000 };

static const char style[] = ".lanes { grid-template-columns: 10rem 1fr; } pre { white-space: pre; overflow-x: auto; }\n"
                            ".key { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; }\n";

static const char *const colours[] = {"#2b5d8a", "#0b7a75", "#7a5200", "#b58a2a", "#777777", "#8b1a85",
                                      "#5a3d8a", "#146c2e", "#5a9a2a", "#8a2b2b", "#3a3a3a"};
enum { COLOUR_COUNT = sizeof colours / sizeof colours[0] };

// A part of the memory: a line of what a GPU implementation holds, or a kind of the reference's ledger.
struct part {
    const char *name, *colour;
    uint64_t bytes[TIER_COUNT];
};

static int parts_of(const struct plan *plan, struct part parts[DEVICE_LINE_MAX])
{
    int count = plan->device.line_count > 0 ? plan->device.line_count : (int)KIND_COUNT;
    for (int i = 0; i < count; i++) {
        bool is_line = plan->device.line_count > 0;
        parts[i] = (struct part){.name = is_line ? plan->device.lines[i].name : ledger_kind_name((enum ledger_kind)i),
                                 .colour = colours[i % COLOUR_COUNT]};
        for (int tier = 0; tier < TIER_COUNT; tier++)
            parts[i].bytes[tier] = is_line ? plan->device.lines[i].bytes[tier] : plan->held_bytes[tier][i];
    }
    return count;
}

static void put_key(const char *colour, const char *name, FILE *out)
{
    fprintf(out, "<span class=\"key\" style=\"background:%s\"></span>%s", colour, name);
}

// A bar for one tier: parts side by side, with a mark where the machine's memory ends.
static void put_tier(const struct plan *plan, const struct part *parts, int count, int tier, FILE *out)
{
    double needed = (double)plan->needed_bytes[tier], has = (double)plan->available_bytes[tier], x = 0;
    double scale = WIDTH / (needed > has ? needed : has);
    char needed_text[SIZE_TEXT_BYTES], has_text[SIZE_TEXT_BYTES];
    fprintf(out, "<span>%s<br/>%s of %s</span><svg viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\">",
            ledger_tier_name((enum ledger_tier)tier), size_short_text(plan->needed_bytes[tier], needed_text),
            size_short_text(plan->available_bytes[tier], has_text), WIDTH);
    for (int i = 0; i < count; i++) {
        double width = (double)parts[i].bytes[tier] * scale;
        char text[SIZE_TEXT_BYTES];
        if (width > 0)
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\" fill=\"%s\"><title>%s %s</title>"
                    "</rect>",
                    x, width, parts[i].colour, parts[i].name, size_short_text(parts[i].bytes[tier], text));
        x += width;
    }
    if (needed > has)
        fprintf(out,
                "<rect x=\"%.2f\" y=\"0\" width=\"4\" height=\"10\" fill=\"#b3181c\"><title>end of the machine's memory"
                "</title></rect>",
                has * scale);
    fputs("</svg>\n", out);
}

static void put_memory(const struct plan *plan, FILE *out)
{
    struct part parts[DEVICE_LINE_MAX];
    int count = parts_of(plan, parts);
    fputs("<h2>Memory of a rank</h2>\n<p>", out);
    for (int i = 0; i < count; i++)
        put_key(parts[i].colour, parts[i].name, out);
    fputs("</p>\n<div class=\"lanes\">\n", out);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        if (plan->needed_bytes[tier] > 0)
            put_tier(plan, parts, count, tier, out);
    fputs("</div>\n", out);
}

// Says whether it fits, and how fast it is.
static void put_verdict(const struct plan *plan, FILE *out)
{
    char reason[PLAN_REASON_BYTES], tokens[SIZE_TEXT_BYTES];
    html_format(out, "p", "%s%s. A step takes %.3f s: %s tokens/s.",
                plan->fits_all ? "It fits" : "It does not fit: ", plan_reason(plan, reason), plan->step_s,
                size_text((uint64_t)((double)plan->tokens / plan->step_s), tokens));
    fputc('\n', out);
}

static void put_interval(double begin_s, double end_s, double step_s, bool critical, FILE *out)
{
    double from = WIDTH * begin_s / step_s, width = WIDTH * (end_s - begin_s) / step_s;
    fprintf(out, "<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"%s/>", from, width > 0.3 ? width : 0.3,
            critical ? " fill=\"#b3181c\"" : "");
}

// Operations closer than half a pixel share one bar.
static void put_lane(const struct plan *plan, int lane, const bool *critical, FILE *out)
{
    double begin_s = -1, end_s = -1, gap_s = plan->step_s / (2 * WIDTH);
    bool is_critical = false;
    fprintf(out, "<span>%s</span><svg viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\"><g fill=\"#2b5d8a\">",
            ledger_lane_name((enum lane)lane), WIDTH);
    for (size_t i = 0; i < plan->event_count; i++) {
        const struct executor_event *event = &plan->events[i];
        if ((int)event->lane != lane)
            continue;
        double from_s = (double)event->begin_ns * 1e-9;
        if (begin_s >= 0 && (from_s > end_s + gap_s || critical[i] != is_critical)) {
            put_interval(begin_s, end_s, plan->step_s, is_critical, out);
            begin_s = -1;
        }
        begin_s = begin_s < 0 ? from_s : begin_s;
        end_s = (double)event->end_ns * 1e-9;
        is_critical = critical[i];
    }
    if (begin_s >= 0)
        put_interval(begin_s, end_s, plan->step_s, is_critical, out);
    fputs("</g></svg>\n", out);
}

static void put_lanes(const struct plan *plan, const bool *critical, FILE *out)
{
    fprintf(out, "<h2>A step of %.3f s</h2>\n<p>Busy times of each lane; lanes that are dark at the same time overlap.",
            plan->step_s);
    put_key("#b3181c", "on the critical path", out);
    put_key("#2b5d8a", "off the critical path", out);
    fputs("</p>\n<div class=\"lanes\">\n", out);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (plan->busy_s[lane] > 0)
            put_lane(plan, lane, critical, out);
    fputs("</div>\n", out);
}

// Marks the events of the critical path, from the end of the step back along what each waited for.
static bool *find_critical(const struct plan *plan)
{
    bool *critical = calloc(plan->event_count + 1, sizeof *critical);
    for (long at = plan->last_event; critical && at != EXECUTOR_NO_EVENT; at = plan->events[at].after)
        critical[at] = true;
    return critical;
}

static void put_page(const struct plan_setting *setting, const struct plan *plan, const bool *critical, FILE *out)
{
    html_begin(out, style, "plan: %s", setting->model->name);
    int nodes = plan_machine_nodes(setting->machine, setting->world);
    html_format(out, "h1", "%s on %d device%s of %s, %d node%s", setting->model->name, setting->world,
                setting->world > 1 ? "s" : "", setting->machine->name, nodes, nodes > 1 ? "s" : "");
    fputc('\n', out);
    put_verdict(plan, out);
    put_memory(plan, out);
    put_lanes(plan, critical, out);
}

// The text that the command prints.
static int put_text(const struct plan_setting *setting, const struct plan *plan, FILE *out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory for a page");
    plan_print(setting, plan, memory);
    plan_explain(setting, plan, memory);
    bool failed = fclose(memory) != 0;
    fputs("<h2>Details</h2>\n", out);
    html_element(out, "pre", failed ? "" : text);
    fputc('\n', out);
    html_end(out);
    free(text);
    return failed ? err_set(ERR_MEMORY, "no memory for a page") : ERR_NONE;
}

int plan_html(const struct plan_setting *setting, const struct plan *plan, const char *path)
{
    assert(plan->events);
    struct file_output output;
    TRY(file_output_open(path, &output));
    bool *critical = find_critical(plan);
    int code = critical ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a page");
    if (code == ERR_NONE) {
        put_page(setting, plan, critical, output.out);
        code = put_text(setting, plan, output.out);
    }
    free(critical);
    return file_output_close(&output, code);
}
