// SPDX-License-Identifier: Apache-2.0
// The site's pages that are tables of what is known of implementations.
#pragma once

#include "base/page.h"
#include "results/page/board.h"

// Lists the implementations that were judged: the reference, by runs of `validate`, and those of
// FOLDER/implementations.json, if it is there; RECORDS.md has its form. ERR_USAGE: it has another. The caller frees
// *out, after an error too.
int site_columns(const struct board *board, const char *folder, json_t **out);

// Requirements of the suite by implementation, release and version of the suite. Only runs with all requirements of
// theirs but those of optional chapters are shown, of equal ones the newest.
struct page site_requirements(const json_t *columns);

// The tables of FOLDER/findings/defects.md and FOLDER/time-machine.md, as text; none where the files are not there.
struct page site_findings(const char *folder);
