// SPDX-License-Identifier: Apache-2.0
// The requirements of SPEC.md, which is compiled in: the one list of what is demanded, of the check that tests each,
// and of the mutants that break it.
#pragma once

#include "conformance/spec/requirement_parse.h"

// The requirements in the order of SPEC.md; null past the end. Thread-safe: the first use parses SPEC.md. A SPEC.md
// that does not parse is a broken build: the list is empty, and requirement_check returns ERR_INTERNAL with the reason.
const struct requirement *requirement_at(int index);
const struct requirement *requirement_find(const char *id);
int requirement_check(void);

// True if a requirement's patterns match a case, by the part of its name before the first '.' or '~'.
bool requirement_covers(const struct requirement *requirement, const char *case_name);

// Fills in a case's list of requirements.
void requirement_list(struct check_case *c);
