// SPDX-License-Identifier: Apache-2.0
// What `zerogauge validate` finds: each judgement is one `finding` record of the result file (results/RECORDS.md), and
// together they are its verdict.
#ifndef ZG_JUDGEMENT_H
#define ZG_JUDGEMENT_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

// A bench record and its place.
struct result_line {
    size_t line;  // in the result file, from 1
    json_t *record;
};

// In the order of what decides: one INVALID makes the run INVALID, else one INCOMPLETE makes it INCOMPLETE.
enum judged { JUDGED_VALID, JUDGED_INCOMPLETE, JUDGED_INVALID };

enum { JUDGEMENT_ID_BYTES = 64, JUDGEMENT_TEXT_BYTES = 512 };

struct judgement {
    const char *kind;  // "arithmetic", "band", "outlier", "part"; not copied
    enum judged verdict;
    char id[JUDGEMENT_ID_BYTES];
    size_t line;    // of the record that is judged, from 1; 0: of none
    double value;   // what was compared with a limit; NAN: nothing
    char text[JUDGEMENT_TEXT_BYTES];  // for people, whole without the rest
};

struct judgements {
    struct judgement *list;  // owned; zero is none
    size_t count, room;
};

const char *judged_name(enum judged verdict);

// ERR_MEMORY. The judgement is copied.
int judgements_add(struct judgements *judgements, const struct judgement *judgement);
void judgements_free(struct judgements *judgements);

enum judged judgements_verdict(const struct judgements *judgements);

// The `finding` record, and an array of all. Null: no memory.
json_t *judgement_json(const struct judgement *judgement);
json_t *judgements_json(const struct judgements *judgements);

#endif
