// SPDX-License-Identifier: Apache-2.0
// The site's pages that are tables of what is known of implementations.
#pragma once

#include "base/page.h"
#include "results/page/board.h"

// Requirements of the suite by implementation, release and version of the suite. Only runs with all requirements of
// theirs are shown, of equal ones the newest.
struct page site_requirements(const struct board *board);

// The tables of FOLDER/findings/README.md and FOLDER/time-machine.md, as text; none where the files are not there.
struct page site_findings(const char *folder);
