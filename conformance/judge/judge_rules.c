// SPDX-License-Identifier: Apache-2.0
// Checks that one rule explains all answers: on one device and in one precision an implementation has one recipe, and
// in equal layouts its tails are in the same elements.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A number for where Adam runs, in which precision and how: with equal ones an implementation has one recipe.
static int placement_of(const struct check_case *c)
{
    bool corrects = true;
    for (int i = 0; i < c->group_count; i++)
        corrects &= c->groups[i].bias_correction;
    return (int)c->precision * 4 + corrects * 2 + (c->offload_optimizer == TIER_DEVICE);
}

static bool same_group(const struct case_group *a, const struct case_group *b)
{
    return a->decoupled == b->decoupled && a->lr_by_step == b->lr_by_step && a->lr[0] == b->lr[0] &&
           a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps && a->weight_decay == b->weight_decay;
}

static bool same_param(const struct case_param *a, const struct case_param *b)
{
    return a->shape_rank == b->shape_rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->group == b->group &&
           a->frozen == b->frozen && a->used == b->used && a->tied_to == b->tied_to &&
           memcmp(a->unused_in, b->unused_in, sizeof a->unused_in) == 0;
}

// True if the cases agree in everything that an element's position in the optimizer's buffers may depend on.
static bool same_layout(const struct check_case *a, const struct check_case *b)
{
    bool same = a->world == b->world && a->stage == b->stage && a->phase == b->phase &&
                a->param_count == b->param_count && a->group_count == b->group_count &&
                a->communication_dtype == b->communication_dtype && a->accumulation_dtype == b->accumulation_dtype &&
                a->reduce_bucket == b->reduce_bucket && a->allgather_bucket == b->allgather_bucket &&
                a->prefetch_bucket == b->prefetch_bucket && a->sub_group == b->sub_group && a->overlap == b->overlap &&
                a->contiguous_gradients == b->contiguous_gradients && a->reduce_scatter == b->reduce_scatter &&
                a->offload_optimizer == b->offload_optimizer && a->offload_param == b->offload_param &&
                a->delayed_update == b->delayed_update;
    for (int i = 0; same && i < a->group_count; i++)
        same = same_group(&a->groups[i], &b->groups[i]);
    for (int i = 0; same && i < a->param_count; i++)
        same = same_param(&a->params[i], &b->params[i]);
    return same;
}

// True if no element is in the body by one rule and in the tail by the other.
static bool sequences_agree(const unsigned char *a, const unsigned char *b, size_t count)
{
    for (size_t i = 0; a && b && i < count; i++)
        if ((a[i] | b[i]) == (IN_BODY | IN_TAIL))
            return false;
    return true;
}

// True if rules of this recipe explain both answers with the same tails.
static bool tails_agree(const struct kept *a, const struct kept *b, int recipe)
{
    size_t count = 0;
    for (int i = 0; i < a->c->param_count; i++)
        count += case_is_trained(a->c, i) ? a->c->params[i].count : 0;
    for (size_t i = 0; i < a->explained.count; i++)
        for (size_t j = 0; j < b->explained.count; j++)
            if (a->explained.rules[i].recipe == recipe && b->explained.rules[j].recipe == recipe &&
                sequences_agree(a->explained.sequences[i], b->explained.sequences[j], count))
                return true;
    return false;
}

static bool has_recipe(const struct rule_set *set, int recipe)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->rules[i].recipe == recipe)
            return true;
    return false;
}

// True if the same things may round in both cases, so that an implementation whose sums are in no rule of the table
// follows none in either of them: in exact cases only the recipe, a running mean over micro-steps, and a clip
// coefficient.
static bool same_rounding(const struct check_case *a, const struct check_case *b)
{
    return a->exact == b->exact && a->accumulation == b->accumulation &&
           (a->gradient_clipping > 0) == (b->gradient_clipping > 0) &&
           (a->exact || (a->world == b->world && a->communication_dtype == b->communication_dtype &&
                         a->accumulation_dtype == b->accumulation_dtype));
}

// How many answers of a placement a recipe explains, and how many there are; of those in which the same may round as in
// `like`, if that is not null; telling: of those that tell the recipe.
struct share {
    size_t explained, all;
};

// Exact cases tell the recipe of a placement, as nothing else rounds in them.
static bool tells_recipe(const struct check_case *c)
{
    return c->exact && c->accumulation == 1 && c->gradient_clipping <= 0;
}

static struct share share_of(const struct judge *judge, int placement, int recipe, const struct check_case *like,
                             bool telling)
{
    struct share share = {0};
    for (size_t i = 0; i < judge->kept_count; i++) {
        const struct kept *kept = &judge->kept[i];
        if (kept->placement != placement || (like && !same_rounding(kept->c, like)) ||
            (telling && !tells_recipe(kept->c)))
            continue;
        share.explained += has_recipe(&kept->explained, recipe);
        share.all += kept->explained.count > 0 || kept->follows_no_rule;
    }
    return share;
}

// An unknown recipe may agree with a known one in small answers. So an answer that a known recipe does not explain is
// an error only if the recipe explains nearly all others.
static bool is_rule(struct share share)
{
    return share.explained > 0 && share.explained * 10 >= share.all * 9;
}

// The recipe that explains most answers of a placement; -1: none explains any.
static int common_recipe(const struct judge *judge, int placement)
{
    int best = -1;
    size_t most = 0;
    for (int recipe = 0; adam_recipe_at(recipe); recipe++) {
        size_t count = share_of(judge, placement, recipe, NULL, false).explained;
        if (count > most) {
            most = count;
            best = recipe;
        }
    }
    return best;
}

// The answers that tell the recipe of a placement; where there is none, all do.
static struct share evidence_of(const struct judge *judge, int placement, int recipe)
{
    struct share exact = share_of(judge, placement, recipe, NULL, true);
    return exact.all > 0 ? exact : share_of(judge, placement, recipe, NULL, false);
}

// The first answer of the same layout with other tails; null: none.
static const struct kept *other_tails(const struct judge *judge, const struct kept *kept, int recipe)
{
    bool has_tail = adam_recipe_has_tail(adam_recipe_at(recipe));
    for (const struct kept *other = judge->kept; has_tail && other < kept; other++)
        if (other->placement == kept->placement && same_layout(other->c, kept->c) &&
            has_recipe(&other->explained, recipe) && !tails_agree(other, kept, recipe))
            return other;
    return NULL;
}

// Judges an answer by the recipe of its placement.
static void judge_kept(const struct judge *judge, const struct kept *kept, int recipe, struct finding *out)
{
    const char *name = adam_recipe_name(adam_recipe_at(recipe));
    bool follows = has_recipe(&kept->explained, recipe);
    struct share share = {0};
    if (!follows)
        share = share_of(judge, kept->placement, recipe, kept->c, false);
    const struct kept *other = follows ? other_tails(judge, kept, recipe) : NULL;
    if (other) {
        out->verdict = VERDICT_FAIL;
        out->hint = HINT_TAIL;
        snprintf(out->text, sizeof out->text, "%s: the tails differ from those in %s, which has the same layout", name,
                 other->c->name);
    } else if (!follows && kept->explained.count > 0) {
        out->verdict = VERDICT_FAIL;
        out->hint = HINT_RECIPE;
        snprintf(out->text, sizeof out->text, "%s explains this answer, and %s the others",
                 adam_recipe_name(adam_recipe_at(kept->explained.rules[0].recipe)), name);
    } else if (!follows && is_rule(share)) {
        out->verdict = VERDICT_FAIL;
        out->hint = HINT_OTHER;
        snprintf(out->text, sizeof out->text, "%s explains %zu other answers in which the same may round, but not this",
                 name, share.explained);
    } else if (!follows) {
        out->verdict = VERDICT_BOUNDED;
        snprintf(out->text, sizeof out->text, "no rule of the table explains what rounds here; the recipe is %s", name);
    }
}

// first: of the placement.
static int judge_rule_of(struct judge *judge, const struct kept *first)
{
    const struct check_case *placement = first->c;
    int recipe = common_recipe(judge, first->placement);
    if (recipe >= 0 && !is_rule(evidence_of(judge, first->placement, recipe)))
        recipe = -1;
    snprintf(judge->rules[judge->rule_count++], sizeof judge->rules[0], "%s, Adam on the %s%s: %s",
             dtype_name(placement->precision), placement->offload_optimizer == TIER_DEVICE ? "device" : "host",
             placement->groups[0].bias_correction ? "" : ", without bias correction",
             recipe < 0 ? "no recipe of the table" : adam_recipe_name(adam_recipe_at(recipe)));
    for (size_t i = 0; i < judge->kept_count; i++) {
        struct kept *kept = &judge->kept[i];
        bool says = kept->explained.count > 0 || kept->follows_no_rule;
        if (kept->placement != first->placement || !says)
            continue;
        struct finding finding = {.c = kept->c, .aspect = ASPECT_RULE, .verdict = VERDICT_PASS};
        if (recipe >= 0) {
            judge_kept(judge, kept, recipe, &finding);
        } else {
            finding.verdict = VERDICT_BOUNDED;
            snprintf(finding.text, sizeof finding.text, "no recipe of the table");
        }
        TRY(findings_add(judge->findings, &finding));
    }
    return ERR_NONE;
}

int judge_rules(struct judge *judge)
{
    judge->rules = calloc(judge->kept_count + 1, sizeof *judge->rules);
    if (!judge->rules)
        return err_set(ERR_MEMORY, "no memory for the rules of %zu answers", judge->kept_count);
    for (size_t i = 0; i < judge->kept_count; i++)
        judge->kept[i].placement = placement_of(judge->kept[i].c);
    for (size_t i = 0; i < judge->kept_count; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = judge->kept[j].placement != judge->kept[i].placement;
        if (first)
            TRY(judge_rule_of(judge, &judge->kept[i]));
    }
    return ERR_NONE;
}

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
