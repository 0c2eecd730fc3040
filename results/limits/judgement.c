// SPDX-License-Identifier: Apache-2.0
#include "results/limits/judgement.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>

const char *judged_name(enum judged verdict)
{
    static const char *const names[] = {
        [JUDGED_VALID] = "VALID", [JUDGED_INCOMPLETE] = "INCOMPLETE", [JUDGED_INVALID] = "INVALID"};
    return names[verdict];
}

int judgements_add(struct judgements *judgements, const struct judgement *judgement)
{
    if (judgements->count == judgements->room) {
        size_t room = judgements->room ? 2 * judgements->room : 64;
        struct judgement *list = realloc(judgements->list, room * sizeof *list);
        if (!list)
            return err_set(ERR_MEMORY, "no memory for %zu findings", room);
        judgements->list = list;
        judgements->room = room;
    }
    judgements->list[judgements->count++] = *judgement;
    return ERR_NONE;
}

void judgements_free(struct judgements *judgements)
{
    free(judgements->list);
    *judgements = (struct judgements){0};
}

enum judged judgements_verdict(const struct judgements *judgements)
{
    enum judged verdict = JUDGED_VALID;
    for (size_t i = 0; i < judgements->count; i++)
        if (judgements->list[i].verdict > verdict)
            verdict = judgements->list[i].verdict;
    return verdict;
}

json_t *judgement_json(const struct judgement *judgement)
{
    json_t *line = judgement->line > 0 ? json_integer((json_int_t)judgement->line) : json_null();
    json_t *value = isfinite(judgement->value) ? json_real(judgement->value) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "record", "finding", "kind", judgement->kind, "verdict",
                     judged_name(judgement->verdict), "id", judgement->id, "line", line, "value", value, "text",
                     judgement->text);
}

json_t *judgements_json(const struct judgements *judgements)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < judgements->count; i++)
        if (json_array_append_new(findings, judgement_json(&judgements->list[i])) != 0) {
            json_decref(findings);
            return NULL;
        }
    return findings;
}
