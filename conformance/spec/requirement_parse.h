// SPDX-License-Identifier: Apache-2.0
// Reads requirements out of a text in the format of SPEC.md. A chapter is `## TITLE`; a requirement is a block
//
//     ### R-RED-04 MUST: TITLE
//
//     Any paragraphs, or none.
//
//     - Source: where it is from
//     - Check: state, gradient of `red-rounding` `red-odd`
//     - Needs: sharding
//     - Optional: tensor
//     - Versions: from 2
//     - Mutants: `reduce-rank-weighed` `reduce-bf16-sum`
//
// whose list has these items in this order, Needs only where there is something, Optional where
// claims decide whether it is asked (enum case_option; several with ", " between them must all be claimed), Versions
// where suite versions differ: 'from 2' did not exist before version 2, a SHOULD 'MUST until 1' was a MUST in
// version 1. Lines indented by two spaces continue an item.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/spec/aspect.h"

#include <stddef.h>

enum { REQUIREMENT_PATTERN_MAX = 8, REQUIREMENT_MUTANT_MAX = 96 };

// How many a SPEC.md may have.
enum { REQUIREMENT_MAX = 192 };

// A case must have this for a right answer to be a credit to the requirement. A wrong one always counts.
enum need {
    NEED_NOTHING,
    NEED_SHARDING,    // a stage above 0, and several ranks
    NEED_OFFLOAD,     // states on the host or on NVMe
    NEED_NVME,        // states on NVMe
    NEED_CHECKPOINT,  // it stops, or is resumed
    NEED_COUNT
};

// The need of a name; "" is NEED_NOTHING. Returns whether there is one. And the set of words of case_option_names, with
// ", " between them; "" is the empty one.
bool need_find(const char *name, enum need *out);
bool option_find(const char *word, unsigned *out);

bool need_has(enum need need, const struct check_case *c);

// "R-", capital letters, '-', two digits: how long that is at the start of a text; 0: it is not there.
size_t requirement_id_length(const char *text);

struct requirement {
    char id[CASE_REQUIREMENT_BYTES];  // "R-RED-04"
    const char *title;
    bool must;          // false: SHOULD
    const char *group;  // the chapter's title
    const char *text;   // the whole block, as in SPEC.md; text_bytes of it
    size_t text_bytes;
    unsigned aspects;  // bits 1 << enum aspect
    enum need need;
    unsigned options;  // 1 << enum case_option, all of which must be claimed; 0: none
    int since;         // the first suite version that has it
    int must_until;    // of a SHOULD: the last one in which it was a MUST; 0: none
    int pattern_count, mutant_count;
    char patterns[REQUIREMENT_PATTERN_MAX][CASE_NAME_BYTES];  // of case names, as a shell's
    char mutants[REQUIREMENT_MUTANT_MAX][CASE_NAME_BYTES];
};

// True if a version of the suite has a requirement, and if it has it as a MUST.
static inline bool requirement_is_of(const struct requirement *requirement, int suite_version)
{
    return suite_version >= requirement->since;
}
static inline bool requirement_is_must_of(const struct requirement *requirement, int suite_version)
{
    return requirement->must || suite_version <= requirement->must_until;
}

struct requirements {
    struct requirement *list;  // owned; their titles are in strings, their texts in the text that was read
    int count;
    char *strings;
};

// Messages call the text `name`. The text must outlive the list. ERR_USAGE with `NAME:LINE: ...` for what is
// not in the format, for an identifier or a mutant that occurs twice, and for a text without requirements.
int requirements_parse(const char *name, const char *text, size_t bytes, struct requirements *out);

void requirements_close(struct requirements *requirements);

extern const char requirement_text[];        // terminated
extern const size_t requirement_text_bytes;  // without the terminator
