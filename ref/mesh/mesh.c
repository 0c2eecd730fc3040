// SPDX-License-Identifier: Apache-2.0
#include "ref/mesh/mesh.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEGREE_COUNT = 5 };

static const struct {
    const char *name;
    size_t offset;  // in struct mesh
} degrees[DEGREE_COUNT] = {
    {"replicate", offsetof(struct mesh, replicate)}, {"shard", offsetof(struct mesh, shard)},
    {"tensor", offsetof(struct mesh, tensor)},       {"pipeline", offsetof(struct mesh, pipeline)},
    {"expert", offsetof(struct mesh, expert)},
};

static int degree_of(const struct mesh *mesh, int i)
{
    return *(const int *)(const void *)((const char *)mesh + degrees[i].offset);
}

// Parses NAME=DEGREE, `length` bytes long, into one of values[].
static int parse_degree(const char *text, const char *part, size_t length, int values[DEGREE_COUNT])
{
    char shown[TEXT_MESSAGE_BYTES], shown_part[TEXT_MESSAGE_BYTES], name[41], *end;
    const char *equals = memchr(part, '=', length);
    size_t name_length = equals ? (size_t)(equals - part) : length;
    int which = 0;
    while (which < DEGREE_COUNT &&
           (strlen(degrees[which].name) != name_length || strncmp(degrees[which].name, part, name_length) != 0))
        which++;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), part);
    text_message(shown, text, 60);
    if (!equals || which == DEGREE_COUNT)
        return err_set(ERR_USAGE,
                       "mesh %s: \"%s\" is no degree, expected replicate=R, shard=S, tensor=T, pipeline=P or expert=E",
                       shown, text_message(shown_part, name, 40));
    if (values[which] > 0)
        return err_set(ERR_USAGE, "mesh %s: %s is given twice", shown, degrees[which].name);
    long value = strtol(equals + 1, &end, 10);
    if (equals[1] < '0' || equals[1] > '9' || end != part + length || value < 1 || value > MESH_DEGREE_MAX)
        return err_set(ERR_USAGE, "mesh %s: %s is not a whole number from 1 to %d", shown, degrees[which].name,
                       MESH_DEGREE_MAX);
    values[which] = (int)value;
    return ERR_NONE;
}

int mesh_parse(const char *text, struct mesh *out)
{
    int values[DEGREE_COUNT] = {0};
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, ",");
        TRY(parse_degree(text, part, length, values));
        part += length;
        if (!*part)
            break;
    }
    int64_t world = 1;
    for (int i = 0; i < DEGREE_COUNT; i++) {
        values[i] = values[i] > 0 ? values[i] : 1;
        world *= i < DEGREE_COUNT - 1 && world <= MESH_DEGREE_MAX ? values[i] : 1;
    }
    char shown[TEXT_MESSAGE_BYTES];
    if (world > MESH_DEGREE_MAX)
        return err_set(ERR_USAGE, "mesh %s: has more than %d ranks", text_message(shown, text, 60), MESH_DEGREE_MAX);
    *out = (struct mesh){values[0], values[1], values[2], values[3], values[4]};
    return ERR_NONE;
}

const char *mesh_text(const struct mesh *mesh, char out[MESH_TEXT_BYTES])
{
    size_t used = 0;
    snprintf(out, MESH_TEXT_BYTES, "shard=1");
    for (int i = 0; i < DEGREE_COUNT; i++)
        if (degree_of(mesh, i) > 1)
            used += (size_t)snprintf(out + used, MESH_TEXT_BYTES - used, "%s%s=%d", used ? "," : "", degrees[i].name,
                                     degree_of(mesh, i));
    return out;
}

int mesh_world(const struct mesh *mesh)
{
    return mesh->replicate * mesh->shard * mesh->tensor * mesh->pipeline;
}

int mesh_parts(const struct mesh *mesh)
{
    return mesh->tensor * mesh->pipeline;
}

struct mesh mesh_of_data(const struct mesh *mesh)
{
    return (struct mesh){mesh->replicate, mesh->shard, 1, 1, mesh->expert};
}

int mesh_check_world(const struct mesh *mesh, int world)
{
    char text[MESH_TEXT_BYTES];
    int data = mesh->replicate * mesh->shard;
    if (mesh_world(mesh) != world)
        return err_set(
            ERR_USAGE, "mesh %s: replicate %d x shard %d x tensor %d x pipeline %d is %d ranks, the world has %d",
            mesh_text(mesh, text), mesh->replicate, mesh->shard, mesh->tensor, mesh->pipeline, mesh_world(mesh), world);
    if (data % mesh->expert != 0)
        return err_set(ERR_USAGE,
                       "mesh %s: expert=%d does not divide the %d ranks of data parallelism (replicate x shard), over "
                       "which experts are cut",
                       mesh_text(mesh, text), mesh->expert, data);
    return ERR_NONE;
}

int mesh_check_model(const struct mesh *mesh, int layers, int heads, int experts)
{
    const struct {
        const char *name, *what;
        int degree, count;
    } cuts[] = {
        {"pipeline", "layers", mesh->pipeline, layers},
        {"tensor", "attention heads", mesh->tensor, heads},
        {"expert", "experts", mesh->expert, experts},
    };
    char text[MESH_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
        if (cuts[i].degree > 1 && cuts[i].count == 0)
            return err_set(ERR_USAGE, "mesh %s: the model has no %s that %s=%d could cut", mesh_text(mesh, text),
                           cuts[i].what, cuts[i].name, cuts[i].degree);
        else if (cuts[i].count % cuts[i].degree != 0)
            return err_set(ERR_USAGE, "mesh %s: %s=%d does not divide the model's %d %s", mesh_text(mesh, text),
                           cuts[i].name, cuts[i].degree, cuts[i].count, cuts[i].what);
    return ERR_NONE;
}

const char *mesh_kind_name(enum mesh_kind kind)
{
    static const char *const names[MESH_KIND_COUNT] = {
        [MESH_TENSOR] = "tensor",           [MESH_SHARD] = "shard",
        [MESH_REPLICATE] = "replicate",     [MESH_DATA] = "data",
        [MESH_PIPELINE] = "pipeline",       [MESH_EXPERT] = "expert",
        [MESH_EXPERT_DATA] = "expert data",
    };
    return names[kind];
}

int mesh_group_size(const struct mesh *mesh, enum mesh_kind kind)
{
    int data = mesh->replicate * mesh->shard;
    const int sizes[MESH_KIND_COUNT] = {
        [MESH_TENSOR] = mesh->tensor,
        [MESH_SHARD] = mesh->shard,
        [MESH_REPLICATE] = mesh->replicate,
        [MESH_DATA] = data,
        [MESH_PIPELINE] = mesh->pipeline,
        [MESH_EXPERT] = mesh->expert,
        [MESH_EXPERT_DATA] = data / mesh->expert,
    };
    return sizes[kind];
}

// The difference of neighbouring ranks of a group.
static int stride_of(const struct mesh *mesh, enum mesh_kind kind)
{
    switch (kind) {
    case MESH_TENSOR:
        return 1;
    case MESH_REPLICATE:
        return mesh->tensor * mesh->shard;
    case MESH_PIPELINE:
        return mesh->tensor * mesh->shard * mesh->replicate;
    case MESH_EXPERT_DATA:
        return mesh->tensor * mesh->expert;
    default:
        return mesh->tensor;
    }
}

int mesh_group_count(const struct mesh *mesh, enum mesh_kind kind)
{
    return mesh_world(mesh) / mesh_group_size(mesh, kind);
}

int mesh_index_in(const struct mesh *mesh, enum mesh_kind kind, int rank)
{
    return rank / stride_of(mesh, kind) % mesh_group_size(mesh, kind);
}

int mesh_group_of(const struct mesh *mesh, enum mesh_kind kind, int rank)
{
    int stride = stride_of(mesh, kind);
    return rank / (stride * mesh_group_size(mesh, kind)) * stride + rank % stride;
}

int mesh_rank_at(const struct mesh *mesh, enum mesh_kind kind, int group, int index)
{
    int stride = stride_of(mesh, kind), size = mesh_group_size(mesh, kind);
    assert(group >= 0 && group < mesh_group_count(mesh, kind) && index >= 0 && index < size);
    return group / stride * stride * size + group % stride + index * stride;
}
