// SPDX-License-Identifier: Apache-2.0
#ifndef ZG_RESULT_FIGURES_H
#define ZG_RESULT_FIGURES_H

#include "base/page.h"
#include "results/page/result_view.h"

// Appends the sections of a result file that are drawn: its figures, the judged ones first, and the lanes of those that
// have them.
void page_figures(struct page *page, const struct result_view *view);

#endif
