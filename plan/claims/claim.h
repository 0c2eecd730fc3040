// SPDX-License-Identifier: Apache-2.0
// Claims: published statements about training, each with the query that decides it and its recorded verdict, which is
// re-evaluated each time. datasets/claims/README.md describes the form.
#ifndef ZG_CLAIM_H
#define ZG_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CLAIM_NAME_BYTES = 64, CLAIM_TEXT_BYTES = 768 };

enum claim_verdict {
    CLAIM_TRUE,
    CLAIM_TRUE_UNDER,  // true only under its condition
    CLAIM_FALSE,
    CLAIM_UNDECIDABLE,  // no query decides it, for the reason given
    CLAIM_NONE,         // no verdict is recorded
    CLAIM_VERDICT_COUNT
};

const char *claim_verdict_name(enum claim_verdict verdict);

struct claim {
    // All but the statement may be "".
    char name[CLAIM_NAME_BYTES];
    char statement[CLAIM_TEXT_BYTES], source[CLAIM_TEXT_BYTES], condition[CLAIM_TEXT_BYTES];
    char reason[CLAIM_TEXT_BYTES], unit[CLAIM_TEXT_BYTES];
    enum claim_verdict stored, verdict;  // recorded, and evaluated
    double stored_value, value;          // recorded, and evaluated; NAN: none
    bool follows;                        // recorded and evaluated agree
};

typedef int claim_visit(const struct claim *claim, void *context);

// Evaluates each claim of a text and calls visit for it; a non-zero return value of visit ends the walk and is
// returned. The text is {"source": ..., "claims": [...]} or one claim. `file` is the FILE of the messages "FILE:LINE:
// KEY.PATH:
// ..." (ERR_USAGE).
int claim_each_of(const char *file, const char *text, size_t bytes, claim_visit *visit, void *context);

// The same for all compiled-in claims (null), for a compiled-in file of that name, for claims whose names start with
// it, or for a file. ERR_USAGE if there is none.
int claim_each(const char *name, claim_visit *visit, void *context);

// `zerogauge plan --claims`: prints the claims, as text or as JSON lines, and the number of each verdict. ERR_CHECK: a
// recorded verdict or value does not follow.
int claim_print(const char *name, bool json, FILE *out);

#endif
