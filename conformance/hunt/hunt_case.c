// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/hunt_case.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/hunt/hunt_mesh.h"
#include "conformance/unsharded/unsharded.h"
#include "conformance/suite/factor.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct check_case *copy_of(const struct check_case *c)
{
    struct check_case *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *c;
    return copy;
}

// The resuming half's numbers before the checkpoint are the saving half's.
static void precede(struct hunt_case *h)
{
    if (h->part_count == 2)
        case_values_precede(h->parts[0], h->values[0], h->parts[1], h->values[1]);
}

int hunt_case_open(const struct check_case *first, const struct check_case *resume, struct hunt_case *out)
{
    const struct check_case *cases[HUNT_PART_MAX] = {first, resume};
    *out = (struct hunt_case){.part_count = resume ? 2 : 1};
    int rc = ERR_NONE;
    for (int i = 0; i < out->part_count && rc == ERR_NONE; i++) {
        out->parts[i] = copy_of(cases[i]);
        rc = out->parts[i] ? case_values_open(out->parts[i], &out->values[i])
                           : err_set(ERR_MEMORY, "no memory for %s", first->name);
    }
    if (rc == ERR_NONE)
        precede(out);
    else
        hunt_case_close(out);
    return rc;
}

void hunt_case_close(struct hunt_case *h)
{
    for (int i = 0; i < HUNT_PART_MAX; i++) {
        case_values_close(h->values[i]);
        free(h->parts[i]);
    }
    *h = (struct hunt_case){0};
}

void hunt_map_same(struct hunt_map *out)
{
    *out = (struct hunt_map){0};
    for (int i = 0; i < CASE_STEP_MAX; i++)
        out->step[i] = i;
    for (int i = 0; i < CASE_ACCUMULATION_MAX; i++)
        out->micro[i] = i;
    for (int i = 0; i < CASE_WORLD_MAX; i++)
        out->rank[0][i] = out->rank[1][i] = i;
    for (int i = 0; i < CASE_PARAM_MAX; i++)
        out->param[i] = i;
}

static void copy_numbers(const float *from, size_t first, float *to, size_t count)
{
    if (from && to && count > 0)
        memcpy(to, from + first, count * sizeof *to);
}

// One part's numbers. A part that has no counterpart takes them from the first.
static void cut_part(const struct hunt_case *from, int part, const struct hunt_map *map, const struct check_case *c,
                     struct case_values *to)
{
    int source = part < from->part_count ? part : 0;
    const struct check_case *before = from->parts[source];
    int batches = case_batches(c), batches_before = case_batches(before);
    struct case_values *values = from->values[source];
    for (int i = 0; i < c->param_count; i++) {
        int param = map->param[i];
        copy_numbers(case_initial(values, case_owner(before, param)), map->first[i], case_values_initial(to, i),
                     c->params[i].count);
        for (int step = 0; step < c->steps; step++)
            for (int micro = 0; micro < c->accumulation; micro++)
                for (int batch = 0; batch < batches && map->rank[part][batch] < batches_before; batch++)
                    copy_numbers(
                        case_gradient(values, map->step[step] + 1, map->micro[micro], map->rank[part][batch], param),
                        map->first[i], case_values_gradient(to, step + 1, micro, batch, i), c->params[i].count);
    }
}

// One part's counts of tokens, from those of the case that it was.
static void cut_tokens(const struct hunt_case *from, int part, const struct hunt_map *map, struct check_case *c)
{
    const struct check_case *before = from->parts[part < from->part_count ? part : 0];
    int batches = case_batches(c), batches_before = case_batches(before);
    memset(c->micro_steps, 0, sizeof c->micro_steps);
    memset(c->tokens, 0, sizeof c->tokens);
    for (int step = 0; c->has_tokens && step < c->steps; step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int batch = 0; batch < batches && map->rank[part][batch] < batches_before; batch++)
                case_set_tokens(c, step + 1, micro, batch,
                                case_tokens(before, map->step[step] + 1, map->micro[micro], map->rank[part][batch]));
}

int hunt_case_cut(const struct hunt_case *from, const struct check_case parts[], int part_count,
                  const struct hunt_map *map, struct hunt_case *out, bool *legal)
{
    assert(part_count >= 1 && part_count <= HUNT_PART_MAX);
    *out = (struct hunt_case){.part_count = part_count};
    int rc = ERR_NONE;
    for (int i = 0; i < part_count && rc == ERR_NONE; i++) {
        out->parts[i] = copy_of(&parts[i]);
        if (out->parts[i])
            cut_tokens(from, i, map, out->parts[i]);
        rc = out->parts[i] ? case_values_blank(out->parts[i], &out->values[i])
                           : err_set(ERR_MEMORY, "no memory for %s", parts[i].name);
        if (rc == ERR_NONE)
            cut_part(from, i, map, out->parts[i], out->values[i]);
    }
    if (rc == ERR_NONE) {
        precede(out);
        rc = hunt_case_is_legal(out, legal);
    }
    if (rc == ERR_NONE && *legal)
        rc = hunt_case_find_exact(out);
    if (rc != ERR_NONE || !*legal)
        hunt_case_close(out);
    return rc;
}

int hunt_case_longer(const struct hunt_case *from, struct hunt_case *out, bool *legal)
{
    struct check_case parts[HUNT_PART_MAX];
    struct hunt_map map;
    int last = from->parts[0]->steps - 1;
    *out = (struct hunt_case){0};
    *legal = false;
    if (last + 1 == CASE_STEP_MAX)
        return ERR_NONE;
    hunt_map_same(&map);
    map.step[last + 1] = last;
    for (int i = 0; i < from->part_count; i++) {
        parts[i] = *from->parts[i];
        parts[i].steps++;
        if (parts[i].has_tokens && !case_has_room_for_tokens(&parts[i]))
            return ERR_NONE;
        for (int group = 0; group < parts[i].group_count; group++)
            parts[i].groups[group].lr[last + 1] = parts[i].groups[group].lr[last];
        for (int param = 0; param < parts[i].param_count; param++)
            parts[i].params[param].unused_in[last + 1] = parts[i].params[param].unused_in[last];
    }
    return hunt_case_cut(from, parts, from->part_count, &map, out, legal);
}

// True if some element has a gradient and is updated by it.
static bool trains(const struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i) && case_has_gradient(c, i) && c->params[i].count > 0)
            return true;
    return false;
}

// Sets *out if the contract's reader takes the case.
static int is_read(const struct check_case *c, bool *out)
{
    static _Thread_local struct check_case again;
    char *text;
    size_t bytes;
    TRY(case_text(c, &text, &bytes));
    *out = case_parse(c->name, text, bytes, &again) == ERR_NONE;
    free(text);
    return ERR_NONE;
}

// True if the suite would ask for these features together, and for no gradient that is pending at a checkpoint.
static bool is_sensible(const struct check_case *c)
{
    struct factor_vector vector;
    memset(vector.values, FACTOR_OPEN, sizeof vector.values);
    vector.values[FACTOR_STAGE] = (unsigned char)c->stage;
    vector.values[FACTOR_PRECISION] = (unsigned char)c->precision;
    vector.values[FACTOR_COMMUNICATION] = (unsigned char)c->communication_dtype;
    vector.values[FACTOR_ACCUMULATE_IN] = (unsigned char)c->accumulation_dtype;
    vector.values[FACTOR_OPTIMIZER_TIER] = (unsigned char)c->offload_optimizer;
    vector.values[FACTOR_PARAM_TIER] = (unsigned char)c->offload_param;
    vector.values[FACTOR_LOSS_SCALE] = (unsigned char)c->loss_scale.kind;
    vector.values[FACTOR_OVERFLOW] = c->overflow_check ? OVERFLOW_NONE : OVERFLOW_UNCHECKED;
    vector.values[FACTOR_DELAYED] = c->delayed_update > 0;
    bool pending = c->phase != PHASE_WHOLE && c->delayed_update > 0 && c->delayed_update <= c->checkpoint_step;
    return !pending && factor_is_legal(&vector);
}

// An overflow at the smallest loss scale ends some implementations, rightly.
static int keeps_scale(const struct hunt_case *h, int part, bool *out)
{
    static _Thread_local struct check_case logical;
    const struct check_case *c = &logical;
    struct unsharded_decision decisions[CASE_STEP_MAX];
    case_logical(h->parts[part], &logical);
    *out = true;
    if (c->loss_scale.kind != SCALE_DYNAMIC)
        return ERR_NONE;
    TRY(unsharded_decide(c, h->values[part], SCALER_DEEPSPEED, decisions));
    for (int step = 1; step <= case_last_step(c); step++)
        *out &= !(decisions[step - 1].skipped && decisions[step - 1].scale <= c->loss_scale.min_scale);
    return ERR_NONE;
}

int hunt_case_is_legal(const struct hunt_case *h, bool *legal)
{
    *legal = true;
    for (int i = 0; i < h->part_count && *legal; i++) {
        *legal = trains(h->parts[i]) && is_sensible(h->parts[i]);
        if (*legal)
            TRY(is_read(h->parts[i], legal));
        if (*legal)
            TRY(keeps_scale(h, i, legal));
    }
    return ERR_NONE;
}

void hunt_part_name(struct check_case *c, const char *topic, int world)
{
    snprintf(c->name, sizeof c->name, "%.50s.w%d.s%d.%s%s", topic, world, c->stage, dtype_name(c->precision),
             c->phase == PHASE_SAVE     ? ".save"
             : c->phase == PHASE_RESUME ? ".resume"
                                        : "");
}

void hunt_case_name(struct hunt_case *h, int number)
{
    int world = h->parts[0]->world;
    char numbered[56];
    snprintf(numbered, sizeof numbered, number >= 0 ? HUNT_TOPIC ".%d" : HUNT_TOPIC, number);
    for (int i = 0; i < h->part_count; i++) {
        hunt_part_name(h->parts[i], numbered, world);
        h->parts[i]->twin[0] = '\0';
    }
}

const char *hunt_case_text(const struct hunt_case *h, char *out, size_t bytes)
{
    const struct check_case *c = h->parts[0];
    size_t elements = 0;
    for (int i = 0; i < c->param_count; i++)
        elements += case_owner(c, i) == i ? c->params[i].count : 0;
    int used = snprintf(out, bytes, "%d step%s, %d rank%s", c->steps, c->steps == 1 ? "" : "s", c->world,
                        c->world == 1 ? "" : "s");
    if (h->part_count == 2)
        used += snprintf(out + used, bytes - (size_t)used, " then %d", h->parts[1]->world);
    used += snprintf(out + used, bytes - (size_t)used, ", %d tensor%s, %zu element%s", c->param_count,
                     c->param_count == 1 ? "" : "s", elements, elements == 1 ? "" : "s");
    char mesh[MESH_TEXT_BYTES];
    if (case_has_mesh(c))
        used += snprintf(out + used, bytes - (size_t)used, ", on %s", mesh_text(&c->mesh, mesh));
    if (c->sequence > 1)
        snprintf(out + used, bytes - (size_t)used, ",sequence=%d", c->sequence);
    return out;
}
