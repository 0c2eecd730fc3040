// SPDX-License-Identifier: Apache-2.0
// Meshes that the hunt draws: what the contract allows, all kinds that a program claims and no others; and what is left
// of them where a failure needs only a part of the mesh.
#include "conformance/hunt/hunt_mesh.h"

#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/hunt/shrink.h"

#include <criterion/criterion.h>
#include <string.h>

enum { DRAWS = 600 };

static const unsigned OPTIONS[] = {0, 1u << OPTION_REPLICATE, 1u << OPTION_TENSOR | 1u << OPTION_EXPERT,
                                   CASE_OPTIONS_ALL & ~(1u << OPTION_LORA)};

Test(hunt_mesh, what_is_drawn_is_legal_and_has_every_kind_that_is_claimed_and_no_other)
{
    for (size_t k = 0; k < sizeof OPTIONS / sizeof *OPTIONS; k++) {
        unsigned seen = 0;
        int legal_count = 0, muon_cut = 0;
        for (uint64_t number = 0; number < DRAWS; number++) {
            struct check_case parts[2];
            struct hunt_case h;
            bool legal;
            int count = hunt_draw(3, number, OPTIONS[k], parts);
            for (int i = 0; i < count; i++) {
                unsigned options = case_options(&parts[i]);
                cr_assert_eq(strstr(parts[i].note, "muon") != NULL, options >> OPTION_MUON & 1);
                cr_assert_eq(strstr(parts[i].note, "fp8_gather") != NULL, options >> OPTION_FP8_GATHER & 1);
                muon_cut += (options >> OPTION_MUON & options >> OPTION_TENSOR & 1);
                cr_assert(parts[i].world <= 8 || (parts[i].world == 11 && !case_has_mesh(&parts[i])));
                cr_assert(!case_has_mesh(&parts[i]) || mesh_world(&parts[i].mesh) == parts[i].world);
                seen |= case_options(&parts[i]);
            }
            cr_assert_eq(hunt_case_open(&parts[0], count == 2 ? &parts[1] : NULL, &h), ERR_NONE, "%s", err_message());
            cr_assert_eq(hunt_case_is_legal(&h, &legal), ERR_NONE, "%s", err_message());
            legal_count += legal;
            hunt_case_close(&h);
        }
        cr_expect_eq(seen, OPTIONS[k], "options %x, drawn %x", OPTIONS[k], seen);
        cr_expect_eq(muon_cut > 0, OPTIONS[k] >> OPTION_MUON & 1);
        cr_expect_geq(legal_count, DRAWS * 9 / 10, "%d of %d are legal", legal_count, DRAWS);
    }
}

// A mesh leaves a case's numbers as they are.
Test(hunt_mesh, data_ranks_and_their_numbers_are_those_without_a_mesh)
{
    int meshes = 0;
    for (uint64_t number = 1; number < DRAWS; number += 2) {
        struct check_case plain[2], drawn[2];
        int count = hunt_draw(4, number, 1u << OPTION_TOKEN_MEAN, plain);
        cr_assert_eq(hunt_draw(4, number, CASE_OPTIONS_ALL & ~(1u << OPTION_MUON), drawn), count);
        for (int i = 0; i < count; i++) {
            meshes += case_has_mesh(&drawn[i]);
            cr_assert_eq(case_batches(&drawn[i]), plain[i].world);
            cr_assert_eq(drawn[i].data.seed, plain[i].data.seed);
            // Where ranks share a gradient its integers may be smaller.
            cr_assert(drawn[i].sequence > 1 || memcmp(&drawn[i].data, &plain[i].data, sizeof plain[i].data) == 0);
        }
    }
    cr_assert_geq(meshes, DRAWS / 4);
}

typedef bool reason(const struct check_case *c);

static int ask(void *context, const struct hunt_case candidates[], int count, bool fails[])
{
    for (int i = 0; i < count; i++)
        fails[i] = (*(reason **)context)(candidates[i].parts[0]);
    return ERR_NONE;
}

// The first drawn case that fails for this reason, shrunk.
static void shrink_for(reason *fails, struct hunt_case *out)
{
    const struct shrink_setting setting = {.judge = ask, .context = &fails};
    struct shrink_result result;
    struct check_case parts[2];
    uint64_t number = 0;
    int count;
    bool legal = false;
    while (!legal) {
        do
            count = hunt_draw(5, number++, CASE_OPTIONS_ALL, parts);
        while (!fails(&parts[0]) && number < 5000);
        cr_assert_lt(number, 5000, "no case fails");
        cr_assert_eq(hunt_case_open(&parts[0], count == 2 ? &parts[1] : NULL, out), ERR_NONE, "%s", err_message());
        cr_assert_eq(hunt_case_is_legal(out, &legal), ERR_NONE);
        if (!legal)
            hunt_case_close(out);
    }
    cr_assert_eq(shrink(&setting, out, &result), ERR_NONE, "%s", err_message());
    cr_assert(result.complete);
    cr_assert(fails(out->parts[0]));
}

static bool clips_a_mean(const struct check_case *c)
{
    return c->gradient_clipping > 0 && case_batches(c) > 1;
}

Test(hunt_mesh, a_failure_that_needs_no_mesh_loses_it)
{
    struct hunt_case h;
    shrink_for(clips_a_mean, &h);
    cr_expect_not(case_has_mesh(h.parts[0]));
    cr_expect_eq(h.parts[0]->world, 2);
    hunt_case_close(&h);
}

static bool is_tensor(const struct check_case *c)
{
    bool partial = false;
    for (int i = 0; i < c->param_count; i++)
        partial |= c->params[i].placement.part == PART_PARTIAL;
    return c->mesh.tensor > 1 && partial;
}

static bool is_replicated(const struct check_case *c)
{
    return c->mesh.replicate > 1;
}

static bool is_expert(const struct check_case *c)
{
    return c->mesh.expert > 1;
}

static bool is_pipeline(const struct check_case *c)
{
    return c->mesh.pipeline > 1 && c->accumulation > 1;
}

static bool is_sequence(const struct check_case *c)
{
    return c->sequence > 1 && c->accumulation > 1;
}

Test(hunt_mesh, of_a_failure_that_needs_a_degree_that_degree_is_left)
{
    static const struct {
        reason *fails;
        struct mesh mesh;
        int params;
    } left[] = {{is_tensor, {1, 1, 2, 1, 1}, 1},
                {is_replicated, {2, 1, 1, 1, 1}, 1},
                {is_expert, {1, 2, 1, 1, 2}, 1},
                {is_pipeline, {1, 1, 1, 2, 1}, 1},
                {is_sequence, {1, 2, 1, 1, 1}, 1}};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        struct hunt_case h;
        char text[2][MESH_TEXT_BYTES], size[256];
        shrink_for(left[i].fails, &h);
        bool says = strstr(hunt_case_text(&h, size, sizeof size), ",sequence=2");
        cr_expect_eq(says, left[i].fails == is_sequence, "%s", size);
        cr_expect_str_eq(mesh_text(&h.parts[0]->mesh, text[0]), mesh_text(&left[i].mesh, text[1]));
        cr_expect_eq(h.parts[0]->world, 2);
        cr_expect_eq(h.parts[0]->steps, 1);
        cr_expect_eq(h.parts[0]->param_count, left[i].params, "%s: %d parameters", text[1], h.parts[0]->param_count);
        hunt_case_close(&h);
    }
}

static bool has_matrix(const struct check_case *c)
{
    bool any = false;
    for (int i = 0; i < c->param_count; i++)
        any |= case_is_muon(c, i) && c->params[i].shape[1] > 2;
    return any;
}

Test(hunt_mesh, of_a_failure_that_needs_muon_a_row_of_a_matrix_is_left)
{
    struct hunt_case h;
    shrink_for(has_matrix, &h);
    const struct check_case *c = h.parts[0];
    cr_expect(c->world == 1 && c->steps == 1 && c->param_count == 1 && c->group_count == 1 && !case_has_mesh(c));
    cr_expect(c->params[0].shape[0] == 1 && c->params[0].shape_rank == 2 && !c->groups[0].matches_adamw);
    hunt_case_close(&h);
}

static bool gathers_bytes(const struct check_case *c)
{
    return c->gathers_e4m3 && c->world > 1;
}

Test(hunt_mesh, of_a_failure_that_needs_a_gather_in_fp8_that_is_left)
{
    struct hunt_case h;
    shrink_for(gathers_bytes, &h);
    const struct check_case *c = h.parts[0];
    cr_expect(c->world == 2 && c->steps == 1 && c->param_count == 1 && c->params[0].count == 1 && c->stage == 3);
    hunt_case_close(&h);
}
