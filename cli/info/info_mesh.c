// SPDX-License-Identifier: Apache-2.0
#include "cli/info/info.h"

#include "base/err.h"
#include "ref/mesh/mesh.h"

#include <stdio.h>

// The coordinates of a rank, fastest first; those of the experts overlay data parallelism.
static const enum mesh_kind coordinates[] = {MESH_TENSOR, MESH_SHARD, MESH_REPLICATE, MESH_PIPELINE, MESH_EXPERT};
enum { COORDINATE_COUNT = sizeof coordinates / sizeof coordinates[0] };

static json_t *rank_json(const struct mesh *mesh, int rank)
{
    json_t *json = json_pack("{s:i}", "rank", rank);
    for (int i = 0; i < COORDINATE_COUNT; i++)
        json_object_set_new(json, mesh_kind_name(coordinates[i]),
                            json_integer(mesh_index_in(mesh, coordinates[i], rank)));
    return json;
}

static json_t *groups_json(const struct mesh *mesh, enum mesh_kind kind)
{
    json_t *groups = json_array();
    for (int group = 0; group < mesh_group_count(mesh, kind); group++) {
        json_t *ranks = json_array();
        for (int i = 0; i < mesh_group_size(mesh, kind); i++)
            json_array_append_new(ranks, json_integer(mesh_rank_at(mesh, kind, group, i)));
        json_array_append_new(groups, ranks);
    }
    return groups;
}

int info_mesh_collect(const char *text, int world, json_t **out)
{
    struct mesh mesh;
    char normal[MESH_TEXT_BYTES];
    TRY(mesh_parse(text, &mesh));
    TRY(mesh_check_world(&mesh, world > 0 ? world : mesh_world(&mesh)));
    json_t *ranks = json_array(), *groups = json_object();
    for (int rank = 0; rank < mesh_world(&mesh); rank++)
        json_array_append_new(ranks, rank_json(&mesh, rank));
    for (int kind = 0; kind < MESH_KIND_COUNT; kind++)
        json_object_set_new(groups, mesh_kind_name((enum mesh_kind)kind), groups_json(&mesh, (enum mesh_kind)kind));
    *out = json_pack("{s:s, s:s, s:i, s:o, s:o}", "record", "mesh", "mesh", mesh_text(&mesh, normal), "world",
                     mesh_world(&mesh), "ranks", ranks, "groups", groups);
    return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a mesh of %d ranks", mesh_world(&mesh));
}

void info_mesh_print(const json_t *mesh)
{
    size_t index, member;
    const json_t *rank, *number;
    json_t *groups = json_object_get(mesh, "groups"), *group;
    const char *kind;
    printf("mesh %s, %lld ranks\n\n  rank", json_string_value(json_object_get(mesh, "mesh")),
           json_integer_value(json_object_get(mesh, "world")));
    for (int i = 0; i < COORDINATE_COUNT; i++)
        printf("  %9s", mesh_kind_name(coordinates[i]));
    json_array_foreach (json_object_get(mesh, "ranks"), index, rank) {
        printf("\n%6zu", index);
        for (int i = 0; i < COORDINATE_COUNT; i++)
            printf("  %9lld", json_integer_value(json_object_get(rank, mesh_kind_name(coordinates[i]))));
    }
    printf("\n\n  groups");
    json_object_foreach (groups, kind, group) {
        printf("\n  %-12s", kind);
        json_array_foreach (group, index, rank) {
            printf("%s", index ? " |" : "");
            json_array_foreach (rank, member, number)
                printf(" %lld", json_integer_value(number));
        }
    }
    printf("\n");
}
