// SPDX-License-Identifier: Apache-2.0
// The groups of several meshes against tables written out by hand, and the errors.
#include "ref/mesh/mesh.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

// All groups of a kind, as in "0 1 | 2 3".
static const char *groups(const char *mesh_text, enum mesh_kind kind)
{
    static char out[512];
    struct mesh mesh;
    size_t used = 0;
    cr_assert_eq(mesh_parse(mesh_text, &mesh), ERR_NONE, "%s", err_message());
    cr_assert_eq(mesh_check_world(&mesh, mesh_world(&mesh)), ERR_NONE, "%s", err_message());
    for (int group = 0; group < mesh_group_count(&mesh, kind); group++)
        for (int i = 0; i < mesh_group_size(&mesh, kind); i++) {
            int rank = mesh_rank_at(&mesh, kind, group, i);
            cr_expect_eq(mesh_group_of(&mesh, kind, rank), group, "%s, rank %d", mesh_text, rank);
            cr_expect_eq(mesh_index_in(&mesh, kind, rank), i, "%s, rank %d", mesh_text, rank);
            used += (size_t)snprintf(out + used, sizeof out - used, "%s%d", used == 0 ? "" : i ? " " : " | ", rank);
        }
    return out;
}

Test(mesh, groups_are_those_written_out_by_hand)
{
    static const struct {
        const char *mesh;
        enum mesh_kind kind;
        const char *groups;
    } table[] = {
        {"replicate=2,shard=2", MESH_SHARD, "0 1 | 2 3"},
        {"replicate=2,shard=2", MESH_REPLICATE, "0 2 | 1 3"},
        {"replicate=2,shard=2", MESH_DATA, "0 1 2 3"},
        {"replicate=2,shard=2", MESH_TENSOR, "0 | 1 | 2 | 3"},
        {"replicate=2,shard=2", MESH_PIPELINE, "0 | 1 | 2 | 3"},
        {"shard=3,replicate=2", MESH_SHARD, "0 1 2 | 3 4 5"},
        {"shard=3,replicate=2", MESH_REPLICATE, "0 3 | 1 4 | 2 5"},
        {"replicate=3,shard=2", MESH_SHARD, "0 1 | 2 3 | 4 5"},
        {"replicate=3,shard=2", MESH_REPLICATE, "0 2 4 | 1 3 5"},
        {"replicate=4", MESH_SHARD, "0 | 1 | 2 | 3"},
        {"replicate=4", MESH_REPLICATE, "0 1 2 3"},
        {"shard=4", MESH_REPLICATE, "0 | 1 | 2 | 3"},
        {"shard=4", MESH_SHARD, "0 1 2 3"},
        {"shard=1", MESH_SHARD, "0"},
        {"tensor=2,shard=2", MESH_TENSOR, "0 1 | 2 3"},
        {"tensor=2,shard=2", MESH_SHARD, "0 2 | 1 3"},
        {"tensor=2,shard=2", MESH_REPLICATE, "0 | 1 | 2 | 3"},
        {"pipeline=2,shard=2", MESH_SHARD, "0 1 | 2 3"},
        {"pipeline=2,shard=2", MESH_PIPELINE, "0 2 | 1 3"},
        {"replicate=2,shard=2,tensor=2", MESH_TENSOR, "0 1 | 2 3 | 4 5 | 6 7"},
        {"replicate=2,shard=2,tensor=2", MESH_SHARD, "0 2 | 1 3 | 4 6 | 5 7"},
        {"replicate=2,shard=2,tensor=2", MESH_REPLICATE, "0 4 | 1 5 | 2 6 | 3 7"},
        {"replicate=2,shard=2,tensor=2", MESH_DATA, "0 2 4 6 | 1 3 5 7"},
        {"tensor=2,pipeline=2,shard=3", MESH_DATA, "0 2 4 | 1 3 5 | 6 8 10 | 7 9 11"},
        {"tensor=2,pipeline=2,shard=3", MESH_PIPELINE, "0 6 | 1 7 | 2 8 | 3 9 | 4 10 | 5 11"},
        {"replicate=2,shard=2,pipeline=2", MESH_REPLICATE, "0 2 | 1 3 | 4 6 | 5 7"},
        {"expert=2,shard=4", MESH_EXPERT, "0 1 | 2 3"},
        {"expert=2,shard=4", MESH_EXPERT_DATA, "0 2 | 1 3"},
        {"expert=4,shard=2,replicate=2", MESH_EXPERT, "0 1 2 3"},
        {"expert=4,shard=2,replicate=2", MESH_EXPERT_DATA, "0 | 1 | 2 | 3"},
        {"expert=2,shard=2,tensor=2,pipeline=2", MESH_EXPERT, "0 2 | 1 3 | 4 6 | 5 7"},
        {"expert=1,shard=2,replicate=2", MESH_EXPERT, "0 | 1 | 2 | 3"},
        {"expert=1,shard=2,replicate=2", MESH_EXPERT_DATA, "0 1 2 3"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        cr_expect_str_eq(groups(table[i].mesh, table[i].kind), table[i].groups, "%s of %s",
                         mesh_kind_name(table[i].kind), table[i].mesh);
}

// Megatron-LM's example (parallel_state.py, generate_masked_orthogonal_rank_groups): sizes tp 2, dp 3, pp 4.
Test(mesh, data_groups_are_those_of_megatron)
{
    cr_expect_str_eq(groups("tensor=2,shard=3,pipeline=4", MESH_DATA),
                     "0 2 4 | 1 3 5 | 6 8 10 | 7 9 11 | 12 14 16 | 13 15 17 | 18 20 22 | 19 21 23");
}

Test(mesh, text_reads_back)
{
    static const char *const texts[] = {"shard=1", "replicate=2,shard=3", "replicate=4",
                                        "replicate=2,shard=2,tensor=2,pipeline=3,expert=4"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mesh mesh;
        char text[MESH_TEXT_BYTES];
        cr_assert_eq(mesh_parse(texts[i], &mesh), ERR_NONE);
        cr_expect_str_eq(mesh_text(&mesh, text), texts[i]);
    }
}

Test(mesh, what_is_no_mesh_is_refused)
{
    static const char *const bad[][2] = {
        {"", "\"\" is no degree"},
        {"shard", "\"shard\" is no degree"},
        {"shards=2", "\"shards=2\" is no degree"},
        {"shard=2,", "\"\" is no degree"},
        {"shard=2,shard=2", "shard is given twice"},
        {"shard=0", "shard is not a whole number from 1 to 1048576"},
        {"shard=-2", "shard is not a whole number"},
        {"shard= 2", "shard is not a whole number"},
        {"shard=2x", "shard is not a whole number"},
        {"shard=", "shard is not a whole number"},
        {"replicate=99999999999999999999", "replicate is not a whole number"},
        {"replicate=1048576,shard=2", "has more than 1048576 ranks"},
        {"replicate=1048576,shard=1048576,tensor=1048576,pipeline=1048576", "has more than 1048576 ranks"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mesh mesh;
        cr_assert_eq(mesh_parse(bad[i][0], &mesh), ERR_USAGE, "%s", bad[i][0]);
        cr_expect(strstr(err_message(), bad[i][1]), "%s: %s", bad[i][0], err_message());
    }
}

Test(mesh, a_mesh_that_does_not_fit_says_which_degree)
{
    struct mesh mesh;
    cr_assert_eq(mesh_parse("replicate=2,shard=3", &mesh), ERR_NONE);
    cr_expect_eq(mesh_check_world(&mesh, 8), ERR_USAGE);
    cr_expect_str_eq(err_message(), "mesh replicate=2,shard=3: replicate 2 x shard 3 x tensor 1 x pipeline 1 is 6 "
                                    "ranks, the world has 8");
    cr_assert_eq(mesh_parse("shard=4,expert=3", &mesh), ERR_NONE);
    cr_expect_eq(mesh_check_world(&mesh, 4), ERR_USAGE);
    cr_expect_str_eq(err_message(), "mesh shard=4,expert=3: expert=3 does not divide the 4 ranks of data parallelism "
                                    "(replicate x shard), over which experts are cut");
    cr_assert_eq(mesh_parse("tensor=2,pipeline=3,shard=4,expert=4", &mesh), ERR_NONE);
    cr_expect_eq(mesh_check_model(&mesh, 6, 4, 8), ERR_NONE);
    cr_expect_eq(mesh_check_model(&mesh, 4, 4, 8), ERR_USAGE);
    cr_expect(strstr(err_message(), "pipeline=3 does not divide the model's 4 layers"), "%s", err_message());
    cr_expect_eq(mesh_check_model(&mesh, 6, 3, 8), ERR_USAGE);
    cr_expect(strstr(err_message(), "tensor=2 does not divide the model's 3 attention heads"), "%s", err_message());
    cr_expect_eq(mesh_check_model(&mesh, 6, 4, 0), ERR_USAGE);
    cr_expect(strstr(err_message(), "the model has no experts that expert=4 could cut"), "%s", err_message());
}
