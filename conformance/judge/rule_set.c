// SPDX-License-Identifier: Apache-2.0
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

void rule_set_clear(struct rule_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->sequences[i]);
    set->count = 0;
}

void rule_set_free(struct rule_set *set)
{
    rule_set_clear(set);
    free(set->rules);
    free(set->unused);
    free(set->sequences);
    *set = (struct rule_set){0};
}

int rule_set_add(struct rule_set *set, const struct rule *rule, enum unused_form unused, unsigned char *sequences)
{
    assert(rule && rule->recipe >= 0);
    if (set->count % 64 == 0) {
        size_t room = set->count + 64;
        struct rule *rules = realloc(set->rules, room * sizeof *rules);
        unsigned char *forms = rules ? realloc(set->unused, room) : NULL;
        unsigned char **all = forms ? realloc(set->sequences, room * sizeof *all) : NULL;
        set->rules = rules ? rules : set->rules;
        set->unused = forms ? forms : set->unused;
        if (!all) {
            free(sequences);
            return err_set(ERR_MEMORY, "no memory for %zu rules", room);
        }
        set->sequences = all;
    }
    set->rules[set->count] = *rule;
    set->unused[set->count] = (unsigned char)unused;
    set->sequences[set->count++] = sequences;
    return ERR_NONE;
}
