// SPDX-License-Identifier: Apache-2.0
// Answers against one another: cases given twice, and twins, which must end every step in the same bits.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static bool is_repetition(const struct check_case *a, const struct check_case *b)
{
    const char *tilde = strchr(b->name, '~');
    return tilde && strlen(a->name) == (size_t)(tilde - b->name) &&
           strncmp(a->name, b->name, (size_t)(tilde - b->name)) == 0;
}

// The first step that both speak of and in which they differ; 0: none.
static int differing_step(const struct kept *a, const struct kept *b)
{
    int first = case_first_step(a->c) > case_first_step(b->c) ? case_first_step(a->c) : case_first_step(b->c);
    int last = case_last_step(a->c) < case_last_step(b->c) ? case_last_step(a->c) : case_last_step(b->c);
    for (int step = first; step <= last; step++)
        if (memcmp(a->digests[step - 1], b->digests[step - 1], sizeof a->digests[0]) != 0)
            return step;
    return 0;
}

// The hint of what convicts an answer by itself; NONE: nothing does, or it has no hint.
static enum hint own_hint(const struct judge *judge, const struct kept *kept)
{
    for (size_t i = 0; i < judge->findings->count; i++) {
        const struct finding *finding = &judge->findings->list[i];
        if (finding->c == kept->c && !finding->twin && finding->hint != HINT_NONE)
            return finding->hint;
    }
    return HINT_NONE;
}

// A recipe with a tail that explains both answers; null: none.
static const struct adam_recipe *common_tail(const struct kept *a, const struct kept *b)
{
    for (size_t i = 0; i < a->explained.count; i++)
        for (size_t j = 0; j < b->explained.count; j++) {
            const struct adam_recipe *recipe = adam_recipe_at(a->explained.rules[i].recipe);
            if (a->explained.rules[i].recipe == b->explained.rules[j].recipe && adam_recipe_has_tail(recipe))
                return recipe;
        }
    return NULL;
}

// Says that `kept` differs from its twin, and whether a recipe that is permitted by itself is the reason.
static void differ(const struct judge *judge, const struct kept *kept, const struct kept *twin, int step,
                   struct finding *out)
{
    bool has_muon = case_options(kept->c) >> OPTION_MUON & 1;  // whose products explain it, too
    const struct adam_recipe *recipe = out->aspect == ASPECT_REPEAT || has_muon ? NULL : common_tail(kept, twin);
    int used = snprintf(out->text, sizeof out->text, "differs from %s from step %d on", twin->c->name, step);
    out->verdict = VERDICT_FAIL;
    out->hint = own_hint(judge, kept);
    if (recipe && !kept->is_convicted) {
        out->hint = HINT_TAIL;
        snprintf(out->text + used, sizeof out->text - (size_t)used,
                 "; both follow %s, which rounds the remainder of its loop differently: a permitted recipe, but its "
                 "remainder depends on how tensors are cut",
                 adam_recipe_name(recipe));
    } else if (out->hint == HINT_NONE && out->aspect != ASPECT_REPEAT) {
        out->hint = case_first_step(kept->c) > 1 ? HINT_RESUME : HINT_SETTING;
    }
}

static int compare(struct judge *judge, const struct kept *kept, const struct kept *twin, enum aspect aspect)
{
    struct finding finding = {.c = kept->c, .twin = twin->c, .aspect = aspect, .verdict = VERDICT_PASS};
    int step = differing_step(kept, twin);
    if (step > 0)
        differ(judge, kept, twin, step, &finding);
    return findings_add(judge->findings, &finding);
}

// True if an aspect compares the two cases.
static bool are_twins(const struct check_case *a, const struct check_case *b, enum aspect aspect)
{
    bool meet = case_first_step(a) <= case_last_step(b) && case_first_step(b) <= case_last_step(a);
    bool same_stage = a->stage == b->stage, same_world = a->world == b->world;
    if (a == b || !a->twin[0] || !meet || strcmp(a->twin, b->twin) != 0)
        return false;
    if (memcmp(&a->mesh, &b->mesh, sizeof a->mesh) != 0 || a->sequence != b->sequence)
        return aspect == ASPECT_LAYOUTS;
    return aspect == ASPECT_STAGES    ? !same_stage && same_world
           : aspect == ASPECT_WORLDS  ? same_stage && !same_world
           : aspect == ASPECT_LAYOUTS ? false
                                      : same_stage && same_world;
}

// The twin to compare an answer with: the first that is not convicted itself, or the first. Null: there is none.
static const struct kept *twin_of(const struct judge *judge, const struct kept *kept, enum aspect aspect)
{
    const struct kept *first = NULL;
    for (const struct kept *other = judge->kept; other < judge->kept + judge->kept_count; other++) {
        if (other->twin_digest != kept->twin_digest || !are_twins(kept->c, other->c, aspect))
            continue;
        if (!other->is_convicted)
            return other;
        first = first ? first : other;
    }
    return first;
}

// Of two answers that are each other's twin one is compared, and blamed: the convicted, or the later one.
static bool is_compared(const struct judge *judge, const struct kept *kept, const struct kept *twin, enum aspect aspect)
{
    if (twin_of(judge, twin, aspect) != kept)
        return true;
    return kept->is_convicted == twin->is_convicted ? kept > twin : kept->is_convicted;
}

static int compare_twin(struct judge *judge, const struct kept *kept, enum aspect aspect)
{
    bool asks = kept->aspects >> aspect & 1 && kept->c->twin[0];
    const struct kept *twin = asks ? twin_of(judge, kept, aspect) : NULL;
    return twin && is_compared(judge, kept, twin, aspect) ? compare(judge, kept, twin, aspect) : ERR_NONE;
}

// Compares a gather in E4M3 with the same case's gather of fp32.
static int compare_gathers(struct judge *judge, const struct kept *kept)
{
    const struct check_case *c = kept->c;
    if (!c->gathers_e4m3 || !(kept->aspects >> ASPECT_TRAFFIC & 1) || kept->gathered == UINT64_MAX)
        return ERR_NONE;
    for (const struct kept *other = judge->kept; other < judge->kept + judge->kept_count; other++) {
        bool is_plain = !other->c->gathers_e4m3 && c->twin[0] && strcmp(c->twin, other->c->twin) == 0;
        if (!is_plain || other->gathered == UINT64_MAX)
            continue;
        struct finding finding = {.c = c, .twin = other->c, .aspect = ASPECT_TRAFFIC};
        judge_quarter(kept, other, &finding);
        return findings_add(judge->findings, &finding);
    }
    return ERR_NONE;
}

int judge_twins(struct judge *judge)
{
    for (size_t i = 0; i < judge->kept_count; i++) {
        const char *twin = judge->kept[i].c->twin;
        judge->kept[i].twin_digest = twin[0] ? XXH3_64bits(twin, strlen(twin)) : 0;
    }
    for (size_t i = 0; i < judge->kept_count; i++) {
        const struct kept *kept = &judge->kept[i];
        for (size_t j = 0; strchr(kept->c->name, '~') && j < judge->kept_count; j++)
            if (is_repetition(judge->kept[j].c, kept->c))
                TRY(compare(judge, kept, &judge->kept[j], ASPECT_REPEAT));
        TRY(compare_twin(judge, kept, ASPECT_SAME));
        TRY(compare_twin(judge, kept, ASPECT_STAGES));
        TRY(compare_twin(judge, kept, ASPECT_WORLDS));
        TRY(compare_twin(judge, kept, ASPECT_LAYOUTS));
        TRY(compare_gathers(judge, kept));
    }
    return ERR_NONE;
}
