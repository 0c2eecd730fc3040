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

// Each of these returns how many edits are in the list.
static int add_up(struct list *list, int first, int end, int b)
{
    for (int a = first; a < end; a++)
        add(list, a, b);
    return list->count;
}

static int add_down(struct list *list, int count, int b)
{
    for (int a = count - 1; a >= 0; a--)
        add(list, a, b);
    return list->count;
}

// Halves, quarters and so on of the parameters.
static int add_runs(struct list *list, int count)
{
    for (int length = 1; length < count; length *= 2)
        for (int first = 0; first < count; first += length)
            add(list, first, length);
    return list->count;
}

static int add_pairs(struct list *list, int count, int each)
{
    for (int b = 0; b < each; b++)
        add_down(list, count, b);
    return list->count;
}

int edit_list(const struct hunt_case *h, enum edit_kind kind, struct edit edits[], int room)
{
    const struct check_case *c = h->parts[0];
    struct list list = {.edits = edits, .room = room, .kind = kind};
    switch (kind) {
    case EDIT_WHOLE:
        return add_up(&list, 0, h->part_count == 2 ? 2 : 0, 0);
    case EDIT_FEATURE:
        return add_up(&list, 0, edit_feature_count(), 0);
    case EDIT_GROUP:
        for (int i = c->group_count - 1; i > 0; i--)
            add(&list, i, 0);
        return list.count;
    case EDIT_GROUP_FIELD:
        return add_pairs(&list, c->group_count, GROUP_FIELD_COUNT);
    case EDIT_STEPS:
        return add_up(&list, 1, c->steps, 0);
    case EDIT_STEP:
        return add_down(&list, c->steps, 0);
    case EDIT_WORLD:
        for (int part = 0; part < h->part_count; part++)
            add_up(&list, 1, case_batches(h->parts[part]), part);
        return list.count;
    case EDIT_RANK:
        for (int part = 0; part < h->part_count; part++)
            add_down(&list, case_batches(h->parts[part]), part);
        return list.count;
    case EDIT_ACCUMULATION:
        return add_up(&list, 1, c->accumulation, 0);
    case EDIT_MICRO:
        return add_down(&list, c->accumulation, 0);
    case EDIT_PARAMS:
        return add_runs(&list, c->param_count);
    case EDIT_PARAM:
        return add_down(&list, c->param_count, 0);
    case EDIT_PLAIN_PARAM:
        return add_pairs(&list, c->param_count, PLAIN_COUNT);
    case EDIT_ELEMENTS:
        return add_pairs(&list, c->param_count, PIECE_COUNT);
    case EDIT_NUMBERS:
        return add_pairs(&list, c->param_count, NUMBERS_COUNT);
    case EDIT_ZERO:
        for (int step = 1; step <= c->steps; step++)
            add_down(&list, c->param_count, step);
        return list.count;
    default:
        return 0;
    }
}
