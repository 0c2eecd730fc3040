// SPDX-License-Identifier: Apache-2.0
// One page that needs nothing else: no script, no picture, no address; the same on paper and on a phone. It is XML,
// too, so that a test can tell whether a text has left its place.
#include "results/page/html_part.h"
#include "base/report_text.h"
#include "results/page/result_report.h"
#include "results/page/result_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The policy keeps a page from loading or running anything, whatever might have slipped into it.
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<style>\n"
    ":root { --ink: #1c1c1c; --faint: #5c5c5c; --line: #d5d5d5; --good: #146c2e; --fair: #7a5200; --bad: #b3181c;\n"
    "  --plain: #2b5d8a; --track: #eeeeee; }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: var(--ink); background: #ffffff;\n"
    "  font: 1rem/1.45 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.4rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }\n"
    "h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }\n"
    "h1, h2, h3, dd, li, p, .case { overflow-wrap: anywhere; } td { overflow-wrap: break-word; }\n"
    ".verdict { border: 2px solid; border-left-width: .6rem; padding: .6rem 1rem; margin: 0 0 1rem; }\n"
    ".verdict strong { font-size: 1.7rem; } .verdict ul { margin: .4rem 0 0; padding-left: 1.2rem;\n"
    "  color: var(--ink); }\n"
    ".good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); }\n"
    ".plain { color: var(--plain); } .faint { color: var(--faint); }\n"
    ".badge { font-weight: 600; white-space: nowrap; }\n"
    ".facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }\n"
    ".facts dt { color: var(--faint); } .facts dd { margin: 0; }\n"
    ".row { display: grid; grid-template-columns: 17rem 4.5rem 1fr 7rem; gap: .1rem .9rem; align-items: center;\n"
    "  padding: .45rem 0; border-top: 1px solid var(--line); break-inside: avoid; }\n"
    ".case { font-size: .875rem; } .share { font-size: 1.15rem; font-weight: 600; text-align: right;\n"
    "  white-space: nowrap; }\n"
    ".row svg { display: block; width: 100%; overflow: visible; } .bar { height: 1.1rem; } .spread { height: 1.1rem;\n"
    "  margin: .15rem 0 .1rem; } .spread path { vector-effect: non-scaling-stroke; stroke-width: 1.5; }\n"
    ".row .figures { font-size: .8125rem; color: var(--faint); }\n"
    "table { border-collapse: collapse; } .wide { width: 100%; }\n"
    "th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;\n"
    "  border-top: 1px solid var(--line); }\n"
    "th { color: var(--faint); font-weight: 400; } .number { text-align: right; white-space: nowrap; }\n"
    ".scroll { overflow-x: auto; } .heat { font-size: .875rem; }\n"
    ".heat th, .heat td { padding: .3rem .6rem; border: 1px solid #ffffff; text-align: center; white-space: nowrap; }\n"
    ".heat th { text-align: right; }\n"
    ".timeline { display: grid; grid-template-columns: 6.5rem 1fr; gap: .25rem .5rem; align-items: center;\n"
    "  font-size: .8125rem; break-inside: avoid; } .timeline svg { display: block; width: 100%; height: 1rem;\n"
    "  background: var(--track); } .axis { display: flex; justify-content: space-between; color: var(--faint); }\n"
    "p.case { margin: 0 0 .4rem; }\n"
    "code, pre { font: .875rem/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }\n"
    "@media (max-width: 46rem) { body { margin: 1rem auto; }\n"
    "  .row { grid-template-columns: 1fr auto; } .row .chart { grid-column: 1 / 3; grid-row: 2; }\n"
    "  .row .judged { grid-column: 1 / 3; } .facts { grid-template-columns: 1fr; } .facts dd { margin: 0 0 .4rem; } }\n"
    "@media print { body { margin: 0; max-width: none; font-size: 9pt; }\n"
    "  .row { grid-template-columns: 12rem 3.6rem 1fr 5.2rem; padding: .25rem 0; }\n"
    "  .case, .row .figures, code { font-size: 8pt; } .share { font-size: 11pt; }\n"
    "  h2, h3, p.case { break-after: avoid; }\n"
    "  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } tr { break-inside: avoid; } }\n"
    "</style>\n";

static const struct {
    const char *verdict, *class, *mark;
} badges[] = {{"VALID", "good", "&#10003;"},
              {"PASS", "good", "&#10003;"},
              {"CONFORMS", "good", "&#10003;"},
              {"INVALID", "bad", "&#10007;"},
              {"FAIL", "bad", "&#10007;"},
              {"BROKEN", "bad", "!"},
              {"FAILS", "bad", "&#10007;"},
              {"INCOMPLETE", "fair", "&#8230;"},
              {"EQUIVALENT", "good", "&#8776;"},
              {"BOUNDED", "fair", "~"},
              {"CONFORMS-PARTLY", "good", "&#10003;"},
              {OWN_VERDICT, "fair", "~"}};

const char *html_class(const char *verdict)
{
    for (size_t i = 0; verdict && i < sizeof badges / sizeof badges[0]; i++)
        if (strcmp(verdict, badges[i].verdict) == 0)
            return badges[i].class;
    return "plain";
}

void html_badge(FILE *out, const char *verdict)
{
    const char *mark = "&#8211;";
    for (size_t i = 0; i < sizeof badges / sizeof badges[0]; i++)
        if (strcmp(verdict, badges[i].verdict) == 0)
            mark = badges[i].mark;
    fprintf(out, "<span class=\"badge %s\">%s ", html_class(verdict), mark);
    text_markup(out, verdict);
    fputs("</span>", out);
}

static const char *meaning(const char *verdict, const json_t *end)
{
    if (strcmp(view_text(end, "status"), "interrupted") == 0)
        return "the run was interrupted";
    if (strcmp(verdict, "VALID") == 0)
        return "every figure is within its limits";
    if (strcmp(verdict, OWN_VERDICT) == 0)
        return "every figure is within its limits, but they are not the default ones: ";
    if (strcmp(verdict, "INVALID") == 0)
        return "what is listed here is not as it should be";
    if (strcmp(verdict, "INCOMPLETE") == 0)
        return "what is listed here could not be tested";
    return "figures alone; nothing was judged";
}

static void put_verdict(const struct result_view *view, FILE *out)
{
    const json_t *reasons = json_object_get(view->file->end, "reasons"), *reason;
    size_t i;
    fprintf(out, "<div class=\"verdict %s\"><strong>%s</strong> &#8211; %s", html_class(view->verdict), view->verdict,
            meaning(view->verdict, view->file->end));
    text_markup(out, view->own_limits);
    if (json_array_size(reasons) > 0)
        fputs("\n<ul>\n", out);
    json_array_foreach (reasons, i, reason) {
        fputs("<li>", out);
        text_markup(out, json_string_value(reason));
        fputs("</li>\n", out);
    }
    fputs(json_array_size(reasons) > 0 ? "</ul></div>\n" : "</div>\n", out);
}

static void put_fact(FILE *out, const char *name, const char *value)
{
    fprintf(out, "<dt>%s</dt><dd>", name);
    text_markup(out, value);
    fputs("</dd>\n", out);
}

static void put_facts(const struct result_view *view, const char *command, FILE *out)
{
    const json_t *run = view->file->run, *end = view->file->end, *suite = json_object_get(run, "suite");
    const json_t *machine = json_object_get(run, "machine");
    char number[NUMBER_TEXT_BYTES];
    fputs("<dl class=\"facts\">\n<dt>Command</dt><dd><code>", out);
    text_markup(out, command);
    fputs("</code></dd>\n<dt>Machine</dt><dd>", out);
    text_markup(out, view_text(machine, "processor"));
    fprintf(out, ", %.0f cores, %.0f threads, %s", view_number(machine, "cores"), view_number(machine, "threads"),
            bytes_text(view_number(machine, "memory_bytes"), number));
    fputs("</dd>\n<dt>Suite</dt><dd>zerogauge ", out);
    text_markup(out, view_text(suite, "version"));
    fputc(' ', out);
    text_markup(out, view_text(suite, "commit"));
    fprintf(out, "%s</dd>\n", json_is_true(json_object_get(suite, "dirty")) ? ", with changes" : "");
    put_fact(out, "Started", view_text(run, "started"));
    fprintf(out, "<dt>Took</dt><dd>%s s", number_text(view_number(end, "elapsed_s"), number));
    if (strcmp(view_text(end, "status"), "interrupted") == 0)
        fputs(", and was interrupted", out);
    if (!isnan(view_number(end, "other_load")))
        fprintf(out, "; others used %.1f %% of the processors meanwhile", 100 * view_number(end, "other_load"));
    fputs("</dd>\n", out);
    put_fact(out, "Digest", view_text(end, "digest"));
    fputs("</dl>\n", out);
}

int result_html(const struct result_view *view, FILE *out)
{
    char *command = command_text(json_object_get(view->file->run, "command"));
    fputs(head, out);
    fprintf(out, "<title>%s: ", view->verdict);
    text_markup(out, command);
    fputs("</title>\n</head>\n<body>\n<h1>", out);
    text_markup(out, view_text(view->file->run, "program"));
    fputc(' ', out);
    text_markup(out, view_text(view->file->run, "level"));
    fputs("</h1>\n", out);
    put_verdict(view, out);
    put_facts(view, command, out);
    html_limits(view, out);
    html_heat(view, out);
    html_timeline(view, out);
    html_rest(view, out);
    fputs("</body>\n</html>\n", out);
    free(command);
    return result_written(out, "the page");
}
