// SPDX-License-Identifier: Apache-2.0
// The parts of the page (html_page.c). Each writes its sections, or nothing if the file has no records for them.
#ifndef ZG_HTML_PART_H
#define ZG_HTML_PART_H

#include "results/page/result_view.h"

#include <stdio.h>

void html_limits(const struct result_view *view, FILE *out);    // html_bench.c: bars and samples
void html_heat(const struct result_view *view, FILE *out);      // html_heat.c: block size by depth
void html_links(const struct result_view *view, FILE *out);     // html_links.c: hosts by hosts
void html_timeline(const struct result_view *view, FILE *out);  // html_timeline.c: busy times of lanes
void html_rest(const struct result_view *view, FILE *out);      // html_rest.c: findings, requirements, fits, machine

#endif
