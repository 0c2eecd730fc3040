// SPDX-License-Identifier: Apache-2.0
// Reports of verified result files. Every text in a file is untrusted and is escaped for the output format. Errors:
// ERR_IO when the output cannot be written, ERR_MEMORY.
#pragma once

#include "results/page/result_view.h"

#include <stdbool.h>
#include <stdio.h>

// All of a file as Markdown tables, and as one self-contained HTML page with the figures and lanes drawn.
int result_markdown(const struct result_view *view, FILE *out);
int result_html(const struct result_view *view, FILE *out);

// The page of a file, to which more is added before it is written (base/page.h).
struct page result_page(const struct result_view *view);

// Makes a new folder of static pages of all results *.jsonl in a folder and its folders: a board that sorts and
// filters, a page for each file with its place among those of its kind, the requirements by implementation, also those
// of implementations.json, and the tables of findings/defects.md and time-machine.md where they are. ERR_CHECK: a file
// does not verify. ERR_USAGE: `to` exists, two files would have one page, or implementations.json is not as it should
// be.
int site(const char *folder, const char *to);

// A short Markdown table for a README: a row for each accepted range, with its typical case. Of several files, the runs
// of different machines: a column for each, and the least ratio of all. There is at least one.
int result_summaries(const struct result_view *views, size_t count, FILE *out);

// A Markdown table of the files *.jsonl in the folder. Each is verified first; ERR_CHECK if one does not verify. Rows
// are machines, ranked ones first, then by name. Columns are benchmarks: the median ratio over their cases.
int leaderboard(const char *folder, FILE *out);

// Judges each host of a folder of records: of validate, bench, preflight and soak, each verified first, one in memory
// at a time. Hosts are compared with those of their own kind. Writes a line of JSON for each host
// (results/record/fleet.schema.json), those with other bits first, then by name; page: a new file, or null. Counts the
// hosts on standard error. *in_service: every host is. ERR_USAGE: there is no record.
int fleet_report(const char *folder, const char *page, FILE *out, bool *in_service);

// The subcommand `zerogauge report`: argv[0] is its own name. Returns the exit status; 1: a file does not verify.
int report_main(int argc, const char **argv);
