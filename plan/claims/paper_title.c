// SPDX-License-Identifier: Apache-2.0
// The title under which a text cites a paper, beside the paper's own. A paper's source in datasets/papers reads
// "AUTHORS, TITLE, VENUE (arXiv NUMBER...)".
#include "plan/claims/query.h"

#include "base/err.h"
#include "plan/planner/plan_texts.h"

#include <stdio.h>
#include <string.h>

enum { TITLE_BYTES = 256, NUMBER_BYTES = 32, SOURCE_BYTES = 512 };

struct citation {
    char title[TITLE_BYTES + 4], number[NUMBER_BYTES + 8];  // as they stand in a source: ", TITLE,", "(arXiv NUMBER"
    bool is_known, is_right;
};

static int visit_paper(const struct strict_object *root, void *context)
{
    struct citation *citation = context;
    char source[SOURCE_BYTES];
    TRY(strict_string(root, "source", source, sizeof source));
    bool is_it = strstr(source, citation->number);
    citation->is_known |= is_it;
    citation->is_right |= is_it && strstr(source, citation->title);
    return ERR_NONE;
}

int query_title_number(const struct strict_object *object, double *out)
{
    static const char *const keys[] = {"title", "arxiv", NULL};
    struct citation citation = {0};
    char title[TITLE_BYTES], number[NUMBER_BYTES];
    TRY(strict_keys(object, keys));
    TRY(strict_string(object, "title", title, sizeof title));
    TRY(strict_string(object, "arxiv", number, sizeof number));
    snprintf(citation.title, sizeof citation.title, ", %s,", title);
    snprintf(citation.number, sizeof citation.number, "(arXiv %s", number);
    for (const struct plan_text *file = plan_paper_texts; file->name; file++)
        TRY(query_text(file->name, file->text, file->bytes, visit_paper, &citation));
    *out = citation.is_right;
    return citation.is_known ? ERR_NONE
                             : strict_fail(object, "arxiv", "is '%s', which no paper of datasets/papers has", number);
}
