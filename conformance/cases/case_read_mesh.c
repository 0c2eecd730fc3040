// SPDX-License-Identifier: Apache-2.0
// Reads the mesh of case.json, and where each parameter lies on it.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_read_internal.h"

#include "base/err.h"

bool case_has_key(const struct strict_object *object, const char *key)
{
    const json_t *value = json_object_get(object->value, key);
    return value && !json_is_null(value);
}

static int read_sequence(const struct strict_object *mesh, struct check_case *c)
{
    TRY(strict_int(mesh, "sequence", 1, CASE_WORLD_MAX, &c->sequence));
    if (c->mesh.replicate * c->mesh.shard % c->sequence != 0)
        return strict_fail(mesh, "sequence", "is %d, which does not divide the %d data ranks", c->sequence,
                           c->mesh.replicate * c->mesh.shard);
    if (c->sequence % c->mesh.expert != 0 && c->mesh.expert % c->sequence != 0)
        return strict_fail(mesh, "sequence", "is %d with expert=%d, expected one to divide the other", c->sequence,
                           c->mesh.expert);
    return ERR_NONE;
}

int case_read_mesh(const struct strict_object *root, struct check_case *c)
{
    static const char *const keys[] = {"replicate", "shard", "tensor", "pipeline", "expert", "?sequence", NULL};
    struct strict_object object;
    char message[ERR_MESSAGE_BYTES];
    if (!case_has_key(root, "mesh"))
        return ERR_NONE;
    TRY(strict_object_of(root, "mesh", &object));
    TRY(strict_keys(&object, keys));
    int *const degrees[] = {&c->mesh.replicate, &c->mesh.shard, &c->mesh.tensor, &c->mesh.pipeline, &c->mesh.expert};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        TRY(strict_int(&object, keys[i], 1, CASE_WORLD_MAX, degrees[i]));
    if (mesh_check_world(&c->mesh, c->world) == ERR_NONE)
        return case_has_key(&object, "sequence") ? read_sequence(&object, c) : ERR_NONE;
    err_keep(message);
    return strict_fail(root, "mesh", "does not fit: %s", message);
}

static int read_expert(const struct strict_object *object, struct case_placement *out)
{
    out->is_expert = case_has_key(object, "expert");
    return out->is_expert ? strict_int(object, "expert", 0, CASE_PARAM_MAX - 1, &out->expert) : ERR_NONE;
}

int case_read_placement(const struct strict_object *param, const struct check_case *c, struct case_param *out)
{
    struct strict_object object;
    struct case_placement *placement = &out->placement;
    int part = 0, tensor = c->mesh.tensor;
    bool given = case_has_key(param, "placement");
    if (given != case_has_mesh(c))
        return strict_fail(param, "placement", "%s", given ? "is given in a case without a mesh" : "is missing");
    if (!given)
        return ERR_NONE;
    TRY(strict_object_of(param, "placement", &object));
    TRY(strict_only(&object, "pipeline tensor dimension expert"));
    TRY(strict_int(&object, "pipeline", 0, c->mesh.pipeline - 1, &placement->pipeline));
    TRY(strict_word(&object, "tensor", case_part_names, &part));
    TRY(read_expert(&object, placement));
    placement->part = (enum case_part)part;
    bool has_dimension = case_has_key(&object, "dimension");
    if (has_dimension != (part == PART_CUT))
        return strict_fail(&object, "dimension", "%s",
                           has_dimension ? "is given for a parameter that is not cut, expected null" : "is null");
    if (part != PART_CUT)
        return ERR_NONE;
    if (out->shape_rank == 0)
        return strict_fail(&object, "tensor", "is \"cut\", and a scalar has nothing to cut");
    TRY(strict_int(&object, "dimension", 0, out->shape_rank - 1, &placement->dimension));
    size_t length = out->shape[placement->dimension];
    if (length % (size_t)tensor != 0)
        return strict_fail(&object, "dimension", "has %zu elements, which %d tensor ranks do not divide", length,
                           tensor);
    return ERR_NONE;
}

static bool same_but_for_stage(const struct case_placement *a, const struct case_placement *b)
{
    return a->part == b->part && a->dimension == b->dimension && a->is_expert == b->is_expert && a->expert == b->expert;
}

int case_check_placements(const struct strict_object *root, const struct check_case *c)
{
    int experts = 0;
    for (int i = 0; i < c->param_count; i++) {
        const struct case_placement *placement = &c->params[i].placement;
        if (!same_but_for_stage(placement, &c->params[case_owner(c, i)].placement))
            return strict_fail(root, "params", "%s and what it is tied to are placed differently on tensor or expert",
                               c->params[i].name);
        if (placement->is_expert && placement->expert >= experts)
            experts = placement->expert + 1;
    }
    if (case_has_mesh(c) && c->mesh.expert > 1 && (experts == 0 || experts % c->mesh.expert != 0))
        return strict_fail(root, "mesh", "has expert=%d, which does not divide the %d experts", c->mesh.expert,
                           experts);
    return ERR_NONE;
}
