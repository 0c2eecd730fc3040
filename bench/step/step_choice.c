// SPDX-License-Identifier: Apache-2.0
// What `bench step` measures: the ranks, the presets, and the cases that follow.
#include "bench/step/step_bench.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static const char *const WHATS[][2] = {
    {"zero0", "DDP"},
    {"zero1", "ZeRO-1"},
    {"zero2", "ZeRO-2"},
    {"zero3", "ZeRO-3"},
    {"zero2_offload", "ZeRO-Offload"},
    {"zero3_offload", "ZeRO-3, states on the host"},
    {"zero_infinity", "ZeRO-Infinity, states on NVMe"},
};
_Static_assert(sizeof WHATS / sizeof WHATS[0] == STEP_PRESET_COUNT, "each preset has a name");

int step_place_ranks(struct step_setting *setting, const char *mesh_text)
{
    int world = setting->world;
    setting->micro_batches = 1;
    setting->mesh_text = mesh_text;
    if (mesh_text) {
        TRY(mesh_parse(mesh_text, &setting->mesh));
        setting->world = world > 0 ? world : mesh_world(&setting->mesh);
        setting->micro_batches = setting->mesh.pipeline > 1 ? 2 * (size_t)setting->mesh.pipeline : 1;
        if (setting->world < 2 || setting->world > STEP_MESH_MAX)
            return err_set(ERR_USAGE, "--mesh %s: has %d ranks, expected 2 to %d", mesh_text, setting->world,
                           STEP_MESH_MAX);
        return mesh_check_world(&setting->mesh, setting->world);
    }
    setting->world = world > 0 ? world : STEP_WORLD;
    setting->mesh = (struct mesh){1, setting->world, 1, 1, 1};
    return world == 0 || world == 1 || world == STEP_WORLD
               ? ERR_NONE
               : err_set(ERR_USAGE, "--world %d: expected 1 or %d, or a --mesh", world, STEP_WORLD);
}

// Stage 0 has no shards, and a pipeline none but those of stage 1. The presets are in the order of their stages.
static bool is_possible(const struct step_setting *setting, int preset)
{
    bool shards = setting->mesh_text && setting->mesh.shard > 1;
    return setting->world > 1 && (preset > 0 || !shards) && (preset < 2 || setting->mesh.pipeline == 1);
}

int step_choose_presets(const char *list, const struct step_setting *setting, bool chosen[STEP_PRESET_COUNT])
{
    for (int i = 0; i < STEP_PRESET_COUNT; i++)
        chosen[i] = !list && is_possible(setting, i);
    char *copy = strdup(list ? list : ""), *rest = copy, *name;
    int rc = copy ? ERR_NONE : err_set(ERR_MEMORY, "no memory for names");
    while (list && rc == ERR_NONE && (name = strsep(&rest, ","))) {
        int at = 0;
        while (at < STEP_PRESET_COUNT && strcmp(WHATS[at][0], name) != 0)
            at++;
        if (at == STEP_PRESET_COUNT)
            rc = err_set(ERR_USAGE,
                         "--preset %.64s: expected zero0, zero1, zero2, zero3, zero2_offload, "
                         "zero3_offload or zero_infinity, separated by commas",
                         name);
        else
            chosen[at] = true;
    }
    free(copy);
    return rc;
}

// The ranks alone do one whole micro-batch each; on the mesh as many micro-batches of one part of the model.
void step_choose_cases(struct step_bench *bench, const bool chosen[STEP_PRESET_COUNT])
{
    const struct step_setting *setting = &bench->setting;
    const char *all = setting->mesh_text ? "one process, all micro-batches" : "one process, both micro-batches";
    const char *apart = setting->mesh_text ? "as many ranks, no communication" : "two ranks, no communication";
    int world = setting->world, data_ranks = mesh_group_size(&setting->mesh, MESH_DATA);
    bench->cases[0] = (struct step_case){.what = world == 1 ? "one process" : all,
                                         .preset = "zero0",
                                         .world = 1,
                                         .accumulation = (size_t)data_ranks * setting->micro_batches,
                                         .shares = world};
    bench->case_count = 1;
    bench->alone = world == 1 ? 0 : 1;
    if (world > 1)
        bench->cases[bench->case_count++] =
            (struct step_case){.what = apart,
                               .preset = "zero0",
                               .world = 1,
                               .ranks_alone = world,
                               .accumulation = 1,
                               .shares = mesh_parts(&setting->mesh) / (double)setting->micro_batches};
    for (int i = 0; i < STEP_PRESET_COUNT; i++)
        if (chosen[i] && (world > 1 || i > 0))
            bench->cases[bench->case_count++] = (struct step_case){.what = WHATS[i][1],
                                                                   .preset = WHATS[i][0],
                                                                   .world = world,
                                                                   .on_mesh = true,
                                                                   .accumulation = setting->micro_batches,
                                                                   .shares = 1};
}
