// SPDX-License-Identifier: Apache-2.0
// Reports of verified result files. Every text in them comes from a stranger and is escaped for where it goes. Errors:
// ERR_IO when the output cannot be written, ERR_MEMORY.
#ifndef ZG_RESULT_REPORT_H
#define ZG_RESULT_REPORT_H

#include "results/page/result_view.h"

#include <stdio.h>

// Tables: verdict, machine, figures, findings.
int result_markdown(const struct result_view *view, FILE *out);

// One table in Markdown of a few rows, for a README.
int result_summary(const struct result_view *view, FILE *out);

// A row for each case; the first call writes the heads of the columns, too.
int result_csv(const struct result_view *view, bool with_head, FILE *out);

// One page that needs nothing else.
int result_html(const struct result_view *view, FILE *out);

// Plots by gnuplot, as new files in the folder, which is made if it is not there. ERR_USAGE where there is no gnuplot.
int result_svg(const struct result_view *view, const char *folder);

#endif
