// SPDX-License-Identifier: Apache-2.0
#include "base/html_page.h"

#include "base/safe_text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// The policy keeps the page from loading or running anything, even if escaping fails.
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<style>\n"
    ":root { --ink: #1c1c1c; --paper: #ffffff; --faint: #5c5c5c; --line: #d5d5d5; --track: #eeeeee; --good: #146c2e;\n"
    "  --near: #0b5a75; --fair: #7a5200; --bad: #b3181c; --broken: #8b1a85; --plain: #2b5d8a; }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 2rem auto; max-width: 66rem; padding: 0 1rem; color: var(--ink); background: var(--paper);\n"
    "  font: 1rem/1.45 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.4rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }\n"
    "h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }\n"
    "h1, h2, h3, dd, li, p, .case { overflow-wrap: anywhere; } td { overflow-wrap: break-word; }\n"
    ".verdict { border: 2px solid; border-left-width: .6rem; padding: .6rem 1rem; margin: 0 0 1rem; }\n"
    ".verdict strong { font-size: 1.7rem; } .verdict ul { margin: .4rem 0 0; padding-left: 1.2rem;\n"
    "  color: var(--ink); }\n"
    ".good { color: var(--good); } .near { color: var(--near); } .fair { color: var(--fair); }\n"
    ".bad { color: var(--bad); } .broken { color: var(--broken); } .plain { color: var(--plain); }\n"
    ".faint { color: var(--faint); } .badge { font-weight: 600; white-space: nowrap; }\n"
    ".facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }\n"
    ".facts dt { color: var(--faint); } .facts dd { margin: 0; }\n"
    "table { border-collapse: collapse; } .wide { width: 100%; } .scroll { overflow-x: auto; }\n"
    "th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;\n"
    "  border-top: 1px solid var(--line); }\n"
    "th { color: var(--faint); font-weight: 400; } .number { text-align: right; white-space: nowrap; }\n"
    ".lanes { display: grid; grid-template-columns: minmax(6.5rem, max-content) 1fr; gap: .25rem .7rem;\n"
    "  align-items: center; font-size: .8125rem; break-inside: avoid; }\n"
    ".lanes svg { display: block; width: 100%; height: 1rem; background: var(--track); }\n"
    "code, pre { font: .875rem/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }\n"
    "@media (max-width: 46rem) { body { margin: 1rem auto; } .facts { grid-template-columns: 1fr; }\n"
    "  .facts dd { margin: 0 0 .4rem; } }\n"
    "@media print { body { margin: 0; max-width: none; font-size: 9pt; } h2, h3 { break-after: avoid; }\n"
    "  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } tr, li { break-inside: avoid; }\n"
    "  code { font-size: 8pt; } }\n";

// The verdicts on result files, on requirements and on implementations.
static const struct {
    const char *verdict, *class, *mark;
} verdicts[] = {
    {"VALID", "good", "&#10003;"},
    {"VALID BY OWN LIMITS", "fair", "~"},
    {"INVALID", "bad", "&#10007;"},
    {"INCOMPLETE", "fair", "&#8230;"},
    {"PASS", "good", "&#10003;"},
    {"EQUIVALENT", "near", "&#8776;"},
    {"BOUNDED", "fair", "~"},
    {"FAIL", "bad", "&#10007;"},
    {"PARTLY", "fair", "&#9680;"},
    {"BROKEN", "broken", "!"},
    {"UNSUPPORTED", "faint", "&#8211;"},
    {"CONFORMS", "good", "&#10003;"},
    {"CONFORMS-PARTLY", "fair", "&#8776;"},
    {"FAILS", "bad", "&#10007;"},
    {"NOTHING-JUDGED", "faint", "&#8211;"},
};

static void put_format(FILE *out, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    text_markup(out, text);
    free(text);
}

void html_begin(FILE *out, const char *style, const char *title, ...)
{
    va_list arguments;
    va_start(arguments, title);
    fprintf(out, "%s%s</style>\n<title>", head, style);
    put_format(out, title, arguments);
    fputs("</title>\n</head>\n<body>\n", out);
    va_end(arguments);
}

void html_end(FILE *out)
{
    fputs("</body>\n</html>\n", out);
}

void html_element(FILE *out, const char *element, const char *text)
{
    html_format(out, element, "%s", text ? text : "");
}

void html_format(FILE *out, const char *element, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(out, "<%s>", element);
    put_format(out, format, arguments);
    fprintf(out, "</%s>", element);
    va_end(arguments);
}

void html_fact(FILE *out, const char *name, const char *text)
{
    html_element(out, "dt", name);
    html_element(out, "dd", text);
    fputc('\n', out);
}

void html_table_begin(FILE *out, const char *heads)
{
    fputs("<div class=\"scroll\"><table class=\"wide\">\n<thead><tr><th>", out);
    for (const char *at = heads; *at; at++)
        fputs(*at == '|' ? "</th><th>" : (char[]){*at, '\0'}, out);
    fputs("</th></tr></thead>\n<tbody>\n", out);
}

void html_table_end(FILE *out)
{
    fputs("</tbody>\n</table></div>\n", out);
}

const char *html_class(const char *verdict)
{
    for (size_t i = 0; verdict && i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(verdict, verdicts[i].verdict) == 0)
            return verdicts[i].class;
    return "plain";
}

void html_badge(FILE *out, const char *verdict)
{
    const char *mark = "&#8211;";
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(verdict, verdicts[i].verdict) == 0)
            mark = verdicts[i].mark;
    fprintf(out, "<span class=\"badge %s\">%s ", html_class(verdict), mark);
    text_markup(out, verdict);
    fputs("</span>", out);
}
