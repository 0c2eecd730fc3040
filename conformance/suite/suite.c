// SPDX-License-Identifier: Apache-2.0
// Expands the rows of the tables into cases: common defaults, grids, names.
#include "conformance/suite/suite.h"

#include "conformance/suite/suite_build.h"
#include "conformance/suite/suite_pairs.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "conformance/spec/requirement.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 16 };

// The names of a row's cases so far. Its grids may overlap; each case is visited once.
enum { ROW_CASE_MAX = 512 };
struct suite_visit {
    const struct suite_choice *choice;
    int (*visit)(void *context, const struct check_case *c);
    void *context;
    int count;
    char names[ROW_CASE_MAX][CASE_NAME_BYTES];
};

// One seed for all variants of a topic, so that every stage and tier gets the same data.
static uint64_t seed_of(const char *topic)
{
    uint64_t key = 0;
    for (; *topic; topic++)
        key = random_key(key, (unsigned char)*topic);
    return key;
}

// --- names, and the halves of those that resume ---

static const char *precision_letters = "fbh";  // as in enum dtype

static int emit(struct suite_visit *to, struct check_case *c, const char *name, const char *ending)
{
    snprintf(c->name, sizeof c->name, "%.80s%s", name, ending);
    requirement_list(c);
    return to->visit(to->context, c);
}

static void take_mesh(struct check_case *c, struct mesh mesh, int sequence)
{
    c->mesh = mesh;
    c->sequence = sequence;
    suite_place_stages(c);
}

static int emit_halves(struct suite_visit *to, struct check_case *c, const struct suite_item *item, const char *name)
{
    int world = c->world, sequence = c->sequence;
    struct mesh mesh = c->mesh;
    c->phase = PHASE_SAVE;
    TRY(emit(to, c, name, ".save"));
    c->phase = PHASE_RESUME;
    c->world = item->resume_world ? item->resume_world : world;
    take_mesh(c, item->resume_mesh, item->resume_sequence);
    TRY(emit(to, c, name, ".resume"));
    if (c->twin[0] == '\0')
        return ERR_NONE;
    c->phase = PHASE_WHOLE;
    c->checkpoint_step = 0;
    c->world = world;
    take_mesh(c, mesh, sequence);
    return emit(to, c, name, ".whole");
}

static void enlarge(struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].shape_rank > 0) {
            c->params[i].shape[0] *= LARGE;
            c->params[i].count *= LARGE;
        }
}

// Other names for the tensors, by the seed.
static void rename_params(struct check_case *c, uint64_t seed)
{
    for (int i = 0; i < c->param_count; i++)
        snprintf(c->params[i].name, sizeof c->params[i].name, "%c%05x.%d", "hkmw"[random_at(seed, 1) % 4],
                 (unsigned)(random_at(random_key(seed, 2), (uint64_t)i) & 0xfffff), i);
}

static bool is_new(struct suite_visit *to, const char *name)
{
    for (int i = 0; i < to->count; i++)
        if (strcmp(to->names[i], name) == 0)
            return false;
    assert(to->count < ROW_CASE_MAX);
    snprintf(to->names[to->count++], CASE_NAME_BYTES, "%s", name);
    return true;
}

static int make(struct suite_visit *to, const struct suite_row *row, struct suite_item *item)
{
    static _Thread_local struct check_case c;
    char name[CASE_NAME_BYTES];
    snprintf(name, sizeof name, "%.40s.w%d.s%d.%s%s%s", row->topic, item->world, item->stage,
             dtype_name(item->precision), item->variant[0] ? "." : "", item->variant);
    if (!is_new(to, name))
        return ERR_NONE;
    uint64_t seed = seed_of(row->topic) + (uint64_t)suite_number(item, "seed", 0);
    if (to->choice->seed > 0)
        seed = random_key(to->choice->seed, seed);
    suite_begin(&c, item->world, item->stage, item->precision, seed);
    snprintf(c.note, sizeof c.note, "%s", row->note);
    if (row->make)
        row->make(&c, item);
    else
        suite_model(&c);
    suite_set(&c, row->set);
    suite_fit(&c, c.world);
    if (to->choice->seed > 0)
        rename_params(&c, to->choice->seed);
    if (strcmp(item->variant, "large") == 0)
        enlarge(&c);
    item->own_data |= suite_number(item, "seed", 0) > 0 || strcmp(item->variant, "large") == 0;
    if (c.exact && !c.expects_refusal && !c.weights_only && c.twin[0] == '\0')
        snprintf(c.twin, sizeof c.twin, "%.40s.w%d.%s%s%s", row->topic, item->world, dtype_name(item->precision),
                 item->own_data ? "." : "", item->own_data ? item->variant : "");
    return c.checkpoint_step > 0 ? emit_halves(to, &c, item, name) : emit(to, &c, name, "");
}

// --- grids ---

// Copies the next part of a list to `out` and moves the list past it. Returns false at its end.
static bool next_part(const char **list, char separator, char *out, size_t room)
{
    if (!*list || **list == '\0')
        return false;
    size_t bytes = strcspn(*list, (char[]){separator, '\0'});
    snprintf(out, room, "%.*s", (int)bytes, *list);
    *list += bytes + ((*list)[bytes] != '\0');
    return true;
}

static int make_stages(struct suite_visit *to, const struct suite_row *row, int world, const char *variant,
                       const char *stages, const char *precisions)
{
    for (const char *precision = precisions; *precision; precision++)
        for (const char *stage = stages; *stage; stage++) {
            struct suite_item item = {.world = world, .stage = *stage - '0'};
            item.precision = (enum dtype)(strchr(precision_letters, *precision) - precision_letters);
            snprintf(item.variant, sizeof item.variant, "%s", variant);
            TRY(make(to, row, &item));
        }
    return ERR_NONE;
}

static int make_entry(struct suite_visit *to, const struct suite_row *row, const char *entry)
{
    char worlds[64], stages[8], precisions[8], world[8], variant[32];
    next_part(&entry, ':', worlds, sizeof worlds);
    next_part(&entry, ':', stages, sizeof stages);
    next_part(&entry, ':', precisions, sizeof precisions);
    const char *variants = entry, *list = worlds;
    while (next_part(&list, ',', world, sizeof world)) {
        const char *rest = variants;
        if (*rest == '\0')
            TRY(make_stages(to, row, atoi(world), "", stages, precisions));
        while (next_part(&rest, ',', variant, sizeof variant))
            TRY(make_stages(to, row, atoi(world), strcmp(variant, "none") == 0 ? "" : variant, stages, precisions));
    }
    return ERR_NONE;
}

static int make_grid(struct suite_visit *to, const struct suite_row *row, const char *grid)
{
    char entry[128];
    while (next_part(&grid, ' ', entry, sizeof entry))
        TRY(make_entry(to, row, entry));
    return ERR_NONE;
}

static int make_table(struct suite_visit *to, const struct suite_row *table)
{
    for (const struct suite_row *row = table; row->topic; row++) {
        to->count = 0;
        TRY(make_grid(to, row, row->quick));
        if (to->choice->level == LEVEL_FULL)
            TRY(make_grid(to, row, row->full));
    }
    return ERR_NONE;
}

// --- all ---

int suite_cases(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                void *context)
{
    static const struct suite_row *const tables[] = {suite_adam,      suite_partition,  suite_reduce,
                                                     suite_precision, suite_clip,       suite_gather,
                                                     suite_tier,      suite_checkpoint, suite_other};
    struct suite_visit to = {.choice = choice, .visit = visit, .context = context};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(make_table(&to, tables[i]));
    if (suite_version(choice) < 2)
        return ERR_NONE;
    TRY(make_table(&to, suite_edge));
    TRY(make_table(&to, suite_mesh));
    TRY(make_table(&to, suite_lora));
    if (!choice->leaves_meetings)
        TRY(suite_pairs_visit(choice, visit, context));
    if (suite_version(choice) < 3)
        return ERR_NONE;
    TRY(make_table(&to, suite_partner));
    TRY(make_table(&to, suite_partner_tier));
    TRY(make_table(&to, suite_ends));
    TRY(make_table(&to, suite_tokens));
    TRY(make_table(&to, suite_muon));
    TRY(make_table(&to, suite_layout));
    TRY(make_table(&to, suite_fp8));
    return make_table(&to, suite_lora_buckets);
}

int suite_case_count(enum suite_level level, int version)
{
    static const int counts[][2] = {{814, 2440}, {1255, 3674}, {1516, 4906}};
    _Static_assert(sizeof counts / sizeof *counts == ZG_SUITE_VERSION, "a row for each version");
    assert(version >= 1 && version <= ZG_SUITE_VERSION);
    return counts[version - 1][level];
}
