// SPDX-License-Identifier: Apache-2.0
// Writes the HTML page of a result file.
#include "results/page/html_part.h"

#include "base/file.h"
#include "base/html_page.h"
#include "base/safe_text.h"
#include "results/page/result_report.h"
#include "results/page/result_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ".row { display: grid; grid-template-columns: 17rem 4.5rem 1fr 7rem; gap: .1rem .9rem; align-items: center;\n"
    "  padding: .45rem 0; border-top: 1px solid var(--line); break-inside: avoid; }\n"
    ".case { font-size: .875rem; } .share { font-size: 1.15rem; font-weight: 600; text-align: right;\n"
    "  white-space: nowrap; }\n"
    ".row svg { display: block; width: 100%; overflow: visible; } .bar { height: 1.1rem; } .spread { height: 1.1rem;\n"
    "  margin: .15rem 0 .1rem; } .spread path { vector-effect: non-scaling-stroke; stroke-width: 1.5; }\n"
    ".row .figures { font-size: .8125rem; color: var(--faint); } .heat { font-size: .875rem; }\n"
    ".heat th, .heat td { padding: .3rem .6rem; border: 1px solid #ffffff; text-align: center; white-space: nowrap; }\n"
    ".heat th { text-align: right; } .links { display: block; width: 100%; }\n"
    ".axis { display: flex; justify-content: space-between; color: var(--faint); } p.case { margin: 0 0 .4rem; }\n"
    "@media (max-width: 46rem) { .row { grid-template-columns: 1fr auto; }\n"
    "  .row .chart { grid-column: 1 / 3; grid-row: 2; } .row .judged { grid-column: 1 / 3; } }\n"
    "@media print { .row { grid-template-columns: 12rem 3.6rem 1fr 5.2rem; padding: .25rem 0; }\n"
    "  .case, .row .figures { font-size: 8pt; } .share { font-size: 11pt; } p.case { break-after: avoid; } }\n";

static const char *meaning(const char *verdict, const json_t *end)
{
    if (strcmp(view_text(end, "status"), "interrupted") == 0)
        return "the run was interrupted";
    if (strcmp(verdict, "VALID") == 0)
        return "every result is within its accepted range";
    if (strcmp(verdict, OWN_VERDICT) == 0)
        return "every result is within its accepted range, but the ranges are not the default ones: ";
    if (strcmp(verdict, "INVALID") == 0)
        return "these checks failed";
    if (strcmp(verdict, "INCOMPLETE") == 0)
        return "these checks could not run";
    return "measurements only; nothing was judged";
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
        html_element(out, "li", json_string_value(reason));
        fputc('\n', out);
    }
    fputs(json_array_size(reasons) > 0 ? "</ul></div>\n" : "</div>\n", out);
}

static void put_facts(const struct result_view *view, const char *command, FILE *out)
{
    const json_t *run = view->file->run, *end = view->file->end, *suite = json_object_get(run, "suite");
    const json_t *machine = json_object_get(run, "machine");
    char number[NUMBER_TEXT_BYTES];
    fputs("<dl class=\"facts\">\n<dt>Command</dt><dd>", out);
    html_element(out, "code", command);
    fputs("</dd>\n<dt>Machine</dt>", out);
    html_format(out, "dd", "%s, %.0f cores, %.0f threads, %s", view_text(machine, "processor"),
                view_number(machine, "cores"), view_number(machine, "threads"),
                bytes_text(view_number(machine, "memory_bytes"), number));
    fputs("\n<dt>Suite</dt>", out);
    html_format(out, "dd", "zerogauge %s %s%s", view_text(suite, "version"), view_text(suite, "commit"),
                json_is_true(json_object_get(suite, "dirty")) ? ", with changes" : "");
    fputc('\n', out);
    html_fact(out, "Started", view_text(run, "started"));
    fprintf(out, "<dt>Took</dt><dd>%s s", number_text(view_number(end, "elapsed_s"), number));
    if (strcmp(view_text(end, "status"), "interrupted") == 0)
        fputs(", and was interrupted", out);
    if (!isnan(view_number(end, "other_load")))
        fprintf(out, "; %.1f %% of CPU time went to other processes", 100 * view_number(end, "other_load"));
    fputs("</dd>\n", out);
    html_fact(out, "Digest", view_text(end, "digest"));
    fputs("</dl>\n", out);
}

int result_html(const struct result_view *view, FILE *out)
{
    char *command = command_text(json_object_get(view->file->run, "command"));
    html_begin(out, style, "%s: %s", view->verdict, command ? command : "");
    html_format(out, "h1", "%s %s", view_text(view->file->run, "program"), view_text(view->file->run, "level"));
    fputc('\n', out);
    put_verdict(view, out);
    put_facts(view, command, out);
    html_limits(view, out);
    html_heat(view, out);
    html_links(view, out);
    html_timeline(view, out);
    html_rest(view, out);
    html_end(out);
    free(command);
    return file_flush(out, "the page");
}
