// SPDX-License-Identifier: Apache-2.0
// Cuts: everything but features and numbers.
#include "conformance/hunt/edit.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/hunt/hunt_mesh.h"

#include <string.h>

// A case about to be cut: its halves, and where their numbers come from.
struct draft {
    struct check_case parts[HUNT_PART_MAX];
    int part_count;
    struct hunt_map map;
};

// Removes element `at` of `count` elements of a list.
static void remove_index(int list[], int at, int count)
{
    memmove(&list[at], &list[at + 1], (size_t)(count - at - 1) * sizeof *list);
}

// --- steps, ranks, micro-steps ---

static bool without_step(struct draft *draft, int at)
{
    int count = draft->parts[0].steps;
    remove_index(draft->map.step, at, count);
    for (int i = 0; i < draft->part_count; i++) {
        struct check_case *c = &draft->parts[i];
        c->steps--;
        c->checkpoint_step -= c->phase != PHASE_WHOLE && at < c->checkpoint_step;
        c->delayed_update -= c->delayed_update > 1 && (at < c->delayed_update || c->delayed_update > c->steps);
        for (int g = 0; g < c->group_count; g++)
            memmove(&c->groups[g].lr[at], &c->groups[g].lr[at + 1], (size_t)(CASE_STEP_MAX - at - 1) * sizeof(double));
        edit_use_without_step(c, at);
    }
    return true;
}

static bool only_steps(struct draft *draft, int count)
{
    while (draft->parts[0].steps > count)
        without_step(draft, draft->parts[0].steps - 1);
    return true;
}

static bool without_rank(struct draft *draft, int at, int part)
{
    int ranks = part < draft->part_count ? case_batches(&draft->parts[part]) : 0;
    if (at >= ranks || ranks == 1 || !hunt_mesh_resize(&draft->parts[part], ranks - 1))
        return false;
    remove_index(draft->map.rank[part], at, ranks);
    return true;
}

static bool only_ranks(struct draft *draft, int count, int part)
{
    return part < draft->part_count && count < case_batches(&draft->parts[part]) &&
           hunt_mesh_resize(&draft->parts[part], count);
}

static bool without_micro(struct draft *draft, int at)
{
    remove_index(draft->map.micro, at, draft->parts[0].accumulation);
    for (int i = 0; i < draft->part_count; i++) {
        draft->parts[i].accumulation--;
        edit_use_without_micro(&draft->parts[i], at);
    }
    return true;
}

// --- parameters ---

static void remove_param(struct check_case *c, int at)
{
    memmove(&c->params[at], &c->params[at + 1], (size_t)(c->param_count - at - 1) * sizeof *c->params);
    c->param_count--;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].tied_to -= c->params[i].tied_to > at;
}

static bool without_param(struct draft *draft, int at)
{
    struct check_case *c = &draft->parts[0];
    for (int i = c->param_count - 1; i >= at; i--) {
        if (i != at && c->params[i].tied_to != at)
            continue;
        memmove(&draft->map.first[i], &draft->map.first[i + 1], (size_t)(c->param_count - i - 1) * sizeof(size_t));
        remove_index(draft->map.param, i, c->param_count);
        for (int part = 0; part < draft->part_count; part++)
            remove_param(&draft->parts[part], i);
    }
    return true;
}

static bool only_params(struct draft *draft, int first, int count)
{
    for (int i = draft->parts[0].param_count - 1; i >= 0; i--)
        if ((i < first || i >= first + count) && i < draft->parts[0].param_count)
            without_param(draft, i);
    return true;
}

static bool plain_param(struct check_case *c, int at, enum edit_plain plain)
{
    bool changed = false;
    for (int i = 0; i < c->param_count; i++) {
        struct case_param *param = &c->params[i];
        if (case_owner(c, i) != case_owner(c, at) || (plain <= PLAIN_USED && plain != PLAIN_TRAINED && i != at))
            continue;
        switch (plain) {
        case PLAIN_TRAINED:
            changed |= param->frozen;
            param->frozen = false;
            break;
        case PLAIN_USED:
            changed |= edit_use_always(c, i);
            break;
        case PLAIN_FLAT:
            changed |= param->shape_rank != 1;
            memset(param->shape, 0, sizeof param->shape);
            param->shape[0] = param->count;
            param->shape_rank = 1;
            param->placement.dimension = 0;
            break;
        default:
            break;
        }
    }
    if (plain == PLAIN_UNTIED) {
        changed = c->params[at].tied_to >= 0;
        c->params[at].tied_to = -1;
    }
    return changed;
}

static bool cut_elements(struct draft *draft, int at, enum edit_piece piece)
{
    const struct check_case *c = &draft->parts[0];
    size_t columns = case_is_muon(c, at) ? c->params[at].shape[1] : 1;
    size_t count = columns ? c->params[at].count / columns : 0, half = count / 2;
    const struct {
        size_t first, count;
    } pieces[PIECE_COUNT] = {[PIECE_FIRST_ONE] = {0, 1},
                             [PIECE_FIRST_HALF] = {0, half},
                             [PIECE_SECOND_HALF] = {half, count - half},
                             [PIECE_NOT_LAST] = {0, count - 1},
                             [PIECE_NOT_FIRST] = {1, count - 1}};
    if (count < 2)
        return false;
    for (int i = 0; i < c->param_count; i++) {
        if (case_owner(c, i) != at)
            continue;
        draft->map.first[i] += pieces[piece].first * columns;
        for (int part = 0; part < draft->part_count; part++) {
            struct case_param *param = &draft->parts[part].params[i];
            memset(param->shape, 0, sizeof param->shape);
            param->shape[0] = pieces[piece].count;
            param->shape[1] = case_is_muon(c, at) ? columns : 0;
            param->shape_rank = case_is_muon(c, at) ? 2 : 1;
            param->count = pieces[piece].count * columns;
            param->placement.dimension = 0;
        }
    }
    return true;
}

// --- groups ---

static void remove_group(struct check_case *c, int at)
{
    for (int i = 0; i < c->param_count; i++) {
        struct case_param *param = &c->params[i];
        param->group = param->group == at ? 0 : param->group;  // the first takes them
        param->group -= param->group > at;
    }
    memmove(&c->groups[at], &c->groups[at + 1], (size_t)(c->group_count - at - 1) * sizeof *c->groups);
    c->group_count--;
}

static void remove_empty_groups(struct check_case *c)
{
    for (int group = c->group_count - 1; group >= 0 && c->group_count > 1; group--) {
        bool empty = true;
        for (int i = 0; i < c->param_count; i++)
            empty &= c->params[i].group != group;
        if (empty)
            remove_group(c, group);
    }
}

// --- edits ---

bool edit_is_choice(enum edit_kind kind)
{
    return kind == EDIT_WHOLE || kind == EDIT_STEPS || kind == EDIT_WORLD || kind == EDIT_ACCUMULATION ||
           kind == EDIT_PARAMS;
}

static bool change(struct draft *draft, struct edit edit)
{
    const struct check_case *c = &draft->parts[0];
    int before = 0;
    bool done = false;
    switch (edit.kind) {
    case EDIT_FEATURE:
        return edit_feature(edit.a, draft->parts, draft->part_count);
    case EDIT_GROUP:
        if (edit.a >= c->group_count)
            return false;
        for (int i = 0; i < draft->part_count; i++)
            remove_group(&draft->parts[i], edit.a);
        return true;
    case EDIT_GROUP_FIELD:
        for (int i = 0; i < draft->part_count && edit.a < c->group_count; i++)
            done |= edit_group_field(edit.b, &draft->parts[i].groups[edit.a]);
        return done;
    case EDIT_STEPS:
        return edit.a < c->steps && only_steps(draft, edit.a);
    case EDIT_STEP:
        return edit.a < c->steps && c->steps > 1 && without_step(draft, edit.a);
    case EDIT_WORLD:
        return only_ranks(draft, edit.a, edit.b);
    case EDIT_RANK:
        return without_rank(draft, edit.a, edit.b);
    case EDIT_ACCUMULATION:
        before = c->accumulation;
        while (c->accumulation > edit.a)
            without_micro(draft, c->accumulation - 1);
        return c->accumulation < before;
    case EDIT_MICRO:
        return edit.a < c->accumulation && c->accumulation > 1 && without_micro(draft, edit.a);
    case EDIT_PARAMS:
        return edit.b < c->param_count && only_params(draft, edit.a, edit.b);
    case EDIT_PARAM:
        return edit.a < c->param_count && without_param(draft, edit.a);
    case EDIT_PLAIN_PARAM:
        for (int i = 0; i < draft->part_count && edit.a < c->param_count; i++)
            done |= plain_param(&draft->parts[i], edit.a, (enum edit_plain)edit.b);
        return done;
    case EDIT_ELEMENTS:
        return edit.a < c->param_count && case_owner(c, edit.a) == edit.a &&
               cut_elements(draft, edit.a, (enum edit_piece)edit.b);
    default:
        return false;
    }
}

// The same case with other numbers.
static int apply_numbers(const struct hunt_case *from, struct edit edit, const struct draft *draft,
                         struct hunt_case *out, bool *done)
{
    struct hunt_case plain;
    bool legal;
    TRY(hunt_case_cut(from, draft->parts, draft->part_count, &draft->map, &plain, &legal));
    *done = legal && edit.a < plain.parts[0]->param_count && !case_is_muon(plain.parts[0], edit.a) &&
            (edit.kind == EDIT_NUMBERS || edit.b <= plain.parts[0]->steps) &&
            (edit.kind == EDIT_NUMBERS ? edit_numbers(&plain, edit.a, (enum edit_numbers)edit.b)
                                       : edit_zero(&plain, edit.a, edit.b));
    int rc = ERR_NONE;
    // Cut again, for what depends on the numbers.
    if (*done)
        rc = hunt_case_cut(&plain, draft->parts, draft->part_count, &draft->map, out, done);
    hunt_case_close(&plain);
    return rc;
}

// One half's run alone, from the first step to the last.
static int apply_whole(const struct hunt_case *from, int part, struct draft *draft, struct hunt_case *out, bool *done)
{
    struct hunt_case half = {.part_count = 1, .parts = {from->parts[part]}, .values = {from->values[part]}};
    draft->parts[0] = *from->parts[part];
    draft->parts[0].phase = PHASE_WHOLE;
    draft->parts[0].checkpoint_step = 0;
    draft->parts[0].weights_only = false;
    return hunt_case_cut(&half, draft->parts, 1, &draft->map, out, done);
}

int edit_apply(const struct hunt_case *from, struct edit edit, struct hunt_case *out, bool *done)
{
    struct draft draft = {.part_count = from->part_count};
    *out = (struct hunt_case){0};
    *done = false;
    for (int i = 0; i < from->part_count; i++)
        draft.parts[i] = *from->parts[i];
    hunt_map_same(&draft.map);
    if (edit.kind == EDIT_WHOLE)
        return from->part_count == 2 ? apply_whole(from, edit.a, &draft, out, done) : ERR_NONE;
    if (edit.kind == EDIT_NUMBERS || edit.kind == EDIT_ZERO)
        return apply_numbers(from, edit, &draft, out, done);
    if (!change(&draft, edit) || draft.parts[0].param_count == 0)
        return ERR_NONE;
    for (int i = 0; i < draft.part_count; i++) {
        remove_empty_groups(&draft.parts[i]);
        edit_use_settle(&draft.parts[i]);
    }
    return hunt_case_cut(from, draft.parts, draft.part_count, &draft.map, out, done);
}
