// SPDX-License-Identifier: Apache-2.0
// Which edits a case offers. Those that remove something begin at the end, so that indices hold while several are
// applied.
#include "conformance/hunt/edit.h"

#include "conformance/cases/case_mesh.h"

struct list {
    struct edit *edits;
    int count, room;
    enum edit_kind kind;
};

static void add(struct list *list, int a, int b)
{
    if (list->count < list->room)
        list->edits[list->count++] = (struct edit){list->kind, a, b};
}

static void add_down(struct list *list, int count, int b)
{
    for (int a = count - 1; a >= 0; a--)
        add(list, a, b);
}

// Halves, quarters and so on of the parameters.
static void add_runs(struct list *list, int count)
{
    for (int length = 1; length < count; length *= 2)
        for (int first = 0; first < count; first += length)
            add(list, first, length);
}

static void add_pairs(struct list *list, int count, int each)
{
    for (int b = 0; b < each; b++)
        add_down(list, count, b);
}

int edit_list(const struct hunt_case *h, enum edit_kind kind, struct edit edits[], int room)
{
    const struct check_case *c = h->parts[0];
    struct list list = {.edits = edits, .room = room, .kind = kind};
    switch (kind) {
    case EDIT_WHOLE:
        for (int part = 0; h->part_count == 2 && part < 2; part++)
            add(&list, part, 0);
        break;
    case EDIT_FEATURE:
        for (int i = 0; i < edit_feature_count(); i++)
            add(&list, i, 0);
        break;
    case EDIT_GROUP:
        for (int i = c->group_count - 1; i > 0; i--)
            add(&list, i, 0);
        break;
    case EDIT_GROUP_FIELD:
        add_pairs(&list, c->group_count, GROUP_FIELD_COUNT);
        break;
    case EDIT_STEPS:
        for (int i = 1; i < c->steps; i++)
            add(&list, i, 0);
        break;
    case EDIT_STEP:
        add_down(&list, c->steps, 0);
        break;
    case EDIT_WORLD:
        for (int part = 0; part < h->part_count; part++)
            for (int i = 1; i < case_data_ranks(h->parts[part]); i++)
                add(&list, i, part);
        break;
    case EDIT_RANK:
        for (int part = 0; part < h->part_count; part++)
            add_down(&list, case_data_ranks(h->parts[part]), part);
        break;
    case EDIT_ACCUMULATION:
        for (int i = 1; i < c->accumulation; i++)
            add(&list, i, 0);
        break;
    case EDIT_MICRO:
        add_down(&list, c->accumulation, 0);
        break;
    case EDIT_PARAMS:
        add_runs(&list, c->param_count);
        break;
    case EDIT_PARAM:
        add_down(&list, c->param_count, 0);
        break;
    case EDIT_PLAIN_PARAM:
        add_pairs(&list, c->param_count, PLAIN_COUNT);
        break;
    case EDIT_ELEMENTS:
        add_pairs(&list, c->param_count, PIECE_COUNT);
        break;
    case EDIT_NUMBERS:
        add_pairs(&list, c->param_count, NUMBERS_COUNT);
        break;
    case EDIT_ZERO:
        for (int step = 1; step <= c->steps; step++)
            add_down(&list, c->param_count, step);
        break;
    default:
        break;
    }
    return list.count;
}
