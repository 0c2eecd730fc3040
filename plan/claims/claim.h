// SPDX-License-Identifier: Apache-2.0
// Claims: statements about training that circulate, each with the query that decides it and the verdict that followed
// when it was written down; checked anew each time. datasets/claims/README.md describes the form.
#ifndef ZG_CLAIM_H
#define ZG_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CLAIM_NAME_BYTES = 64, CLAIM_TEXT_BYTES = 768 };

enum claim_verdict {
    CLAIM_TRUE,
    CLAIM_TRUE_UNDER,  // not as it stands, but under its condition
    CLAIM_FALSE,
    CLAIM_UNDECIDABLE,  // no query decides it; its reason says why
    CLAIM_NONE,         // nothing is written down: the claim asks
    CLAIM_VERDICT_COUNT
};

const char *claim_verdict_name(enum claim_verdict verdict);

struct claim {
    char name[CLAIM_NAME_BYTES];                                                              // "" where it has none
    char statement[CLAIM_TEXT_BYTES], source[CLAIM_TEXT_BYTES], condition[CLAIM_TEXT_BYTES];  // the latter may be ""
    char reason[CLAIM_TEXT_BYTES], unit[CLAIM_TEXT_BYTES];                                    // and these, too
    enum claim_verdict stored, verdict;  // as written down, and as it follows now
    double stored_value, value;          // the right number; NAN: none
    bool follows;                        // what is written down still does
};

// Calls visit for each claim of a text, evaluated; `file` stands for it in messages. The text is {"source": ...,
// "claims": [...]} or one claim. ERR_USAGE "FILE:LINE: KEY.PATH: ..." for what is no claim. What visit returns, unless
// it is 0, ends it.
int claim_each_of(const char *file, const char *text, size_t bytes,
                  int (*visit)(const struct claim *claim, void *context), void *context);

// The same for all claims that are compiled in (null), for those of a compiled-in file of that name, or whose own name
// begins so, or for a file of the user's. ERR_USAGE where there is none.
int claim_each(const char *name, int (*visit)(const struct claim *claim, void *context), void *context);

// `zerogauge plan --claims`: prints them, as text or as a JSON object a line, and how many there are of each verdict.
// ERR_CHECK where what is written down does not follow.
int claim_print(const char *name, bool json, FILE *out);

#endif
