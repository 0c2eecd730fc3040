// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/hunt_mesh.h"

#include "conformance/cases/case_mesh.h"
#include "conformance/hunt/hunt_case.h"
#include "conformance/suite/factor_case.h"
#include "conformance/suite/suite_build.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    STREAM_PLAIN = 1,
    STREAM_VECTOR,
    STREAM_CASE,
    STREAM_MESH,
    STREAM_WIDE,
    STREAM_LARGEST,
    STREAM_LONG,
    STREAM_AGAIN,
    STREAM_MUON,
    STREAM_E4M3,
};

// One of WIDE_SHARE cases has ranks of two digits, and one of LONG_SHARE a long parameter; of those that can, one of
// LARGEST_SHARE has the largest fp16 number, one of AGAIN_SHARE overflows in a second step, one of MUON_SHARE updates
// matrices by Muon, and one of E4M3_SHARE gathers in FP8.
enum {
    WIDE_SHARE = 16,
    WIDE_WORLD = 11,
    LONG_SHARE = 16,
    LARGEST_SHARE = 4,
    AGAIN_SHARE = 2,
    MUON_SHARE = 3,
    E4M3_SHARE = 2
};

// Every rank's part of a long parameter is more than a block of NVMe in two-byte elements, the granule of programs that
// swap their states by pieces.
enum { LONG_PART = 2048 };

// Of four draws of a factor, how many leave it at its plainest, by the case's number.
static const uint64_t plain_share[] = {0, 2, 3};

static bool has_short(const struct check_case *c)
{
    return c->precision != DTYPE_FP32 || c->communication_dtype != DTYPE_FP32 || c->accumulation_dtype != DTYPE_FP32;
}

// Ranks whose numbers as text are in another order. Returns whether the case has them now.
static bool draw_wide(uint64_t key, struct check_case parts[], int count)
{
    if (random_below(random_at(key, 0), WIDE_SHARE) > 0 || has_short(&parts[0]) || parts[0].has_tokens)
        return false;
    for (int i = 0; i < count; i++) {
        struct check_case *c = &parts[i];
        c->world = WIDE_WORLD;
        c->data.unit = suite_odd_part(WIDE_WORLD) * suite_odd_part(c->accumulation);
        c->data.reach = c->data.spread = 0;
        suite_fit(c, WIDE_WORLD);
        hunt_part_name(c, HUNT_TOPIC, WIDE_WORLD);
    }
    return true;
}

// A parameter that every step uses and whose gradient is its own alone; -1: there is none.
static int lone_param(const struct check_case *c)
{
    for (int i = c->param_count - 1; i >= 0; i--) {
        bool alone = case_is_trained(c, i) && case_is_used(c, i) && !case_use_varies(c, i) && c->params[i].count > 0;
        for (int use = 0; use < c->param_count; use++)
            alone &= use == i || case_owner(c, use) != i;
        if (alone)
            return i;
    }
    return -1;
}

// A parameter of which each rank has more than LONG_PART elements. Returns whether the case has one now.
static bool draw_long(uint64_t key, struct check_case parts[], int count)
{
    int param = lone_param(&parts[0]), world = 1;
    if (random_below(random_at(key, 0), LONG_SHARE) > 0 || param < 0)
        return false;
    for (int i = 0; i < count; i++)
        world = parts[i].world > world ? parts[i].world : world;
    size_t elements = (size_t)world * LONG_PART + 1 + random_below(random_at(key, 1), LONG_PART);
    for (int i = 0; i < count; i++) {
        struct case_param *p = &parts[i].params[param];
        p->shape[0] = p->count = elements;
        p->shape_rank = 1;
    }
    return true;
}

// A case with an overflow has another: hysteresis that a clean step gives back shows only in the second.
static void draw_again(uint64_t key, struct check_case parts[], int count)
{
    const struct check_case *c = &parts[0];
    if (random_below(random_at(key, 0), AGAIN_SHARE) > 0 || c->data.poke_count != 1)
        return;
    struct case_poke again = c->data.pokes[0];
    again.step = 2 + (int)random_below(random_at(key, 1), (uint64_t)c->steps - 2);
    if (again.step == c->data.pokes[0].step || !case_is_used_in(c, again.param, again.step, again.micro))
        return;
    for (int i = 0; i < count; i++)
        parts[i].data.pokes[parts[i].data.poke_count++] = again;
}

// In the first step one element's scaled gradient is the largest finite number of fp16 in one rank and micro-step, and
// zero in all others: no overflow.
static void draw_largest(uint64_t key, struct check_case *c)
{
    int addends = c->world * c->accumulation, param = lone_param(c);
    if (random_below(random_at(key, 0), LARGEST_SHARE) > 0 || c->precision != DTYPE_FP16 || param < 0 ||
        c->has_tokens || c->communication_dtype == DTYPE_BF16 || c->accumulation_dtype == DTYPE_BF16 ||
        !c->overflow_check || c->loss_scale.kind == SCALE_NONE || suite_odd_part(addends) > 1 ||
        c->data.poke_count + addends > CASE_POKE_MAX)
        return;
    for (int k = 0; k < addends; k++)
        suite_poke(c, 1, k / c->world, k % c->world, param, 0, k == 0 ? 65504 / (float)c->loss_scale.scale : 0);
}

// A matrix of its own, in a group that has other parameters.
static bool may_be_muon(const struct check_case *c, int param)
{
    bool alone = true;
    for (int i = 0; i < c->param_count; i++) {
        alone &= i == param || c->params[i].group != c->params[param].group;
        if (i != param && case_owner(c, i) == param)
            return false;
    }
    return !alone && case_is_trained(c, param) && c->params[param].shape_rank == 2 && c->params[param].count > 0;
}

// Matrices are in a group of Muon's. One grid of all gradients leaves no singular value small.
static void draw_muon(uint64_t key, struct check_case parts[], int count)
{
    static const double momentum[] = {0.95, 0.9, 0.8}, decay[] = {0, 0.1, 0.5};
    struct factor_dice dice = {.key = key};
    struct check_case *c = &parts[0];
    struct case_group muon = c->groups[0];
    bool any = false;
    if (factor_roll(&dice, MUON_SHARE) > 0)
        return;
    for (int i = 0; i < c->param_count; i++)
        if (may_be_muon(c, i)) {
            c->params[i].group = c->group_count;
            any = true;
        }
    if (!any)
        return;
    muon.muon = muon.decoupled = muon.bias_correction = true;
    muon.nesterov = factor_roll(&dice, 2);
    muon.matches_adamw = factor_roll(&dice, 2);
    muon.ns_steps = 5;
    muon.beta1 = momentum[factor_roll(&dice, 3)];
    muon.weight_decay = decay[factor_roll(&dice, 3)];
    c->groups[c->group_count++] = muon;
    c->data.exponent_low = c->data.exponent_high;
    for (int i = 1; i < count; i++) {
        memcpy(parts[i].params, c->params, sizeof c->params);
        memcpy(parts[i].groups, c->groups, sizeof c->groups);
        parts[i].group_count = c->group_count;
        parts[i].data = c->data;
    }
}

static void draw_e4m3(uint64_t key, struct check_case parts[], int count)
{
    const struct check_case *c = &parts[0];
    bool can = c->stage == 3 && c->precision == DTYPE_FP32 && !(case_options(c) >> OPTION_MUON & 1);
    for (int i = 0; i < count; i++)
        parts[i].gathers_e4m3 = can && random_below(random_at(key, 0), E4M3_SHARE) == 0;
}

// Puts first what the vector of factors does not say. The mesh is printed with a case's size.
static void complete_note(struct check_case *c)
{
    unsigned options = case_options(c), said[] = {OPTION_MUON, OPTION_FP8_GATHER};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char drawn[CASE_NOTE_BYTES];
        memcpy(drawn, c->note, sizeof drawn);
        if (options >> said[i] & 1)
            snprintf(c->note, sizeof c->note, "%s%s%.200s", case_option_names[said[i]], drawn[0] ? ", " : "", drawn);
    }
}

int hunt_draw(uint64_t seed, uint64_t number, unsigned options, struct check_case out[2])
{
    struct factor_vector vector;
    uint64_t key = random_key(seed, number), share = plain_share[number % 3];
    memset(vector.values, FACTOR_OPEN, sizeof vector.values);
    for (int i = 0; i < FACTOR_COUNT; i++) {
        bool plain = random_below(random_at(random_key(key, STREAM_PLAIN), (uint64_t)i), 4) < share;
        // With one rank, or at stage 0, ZeRO has nothing to do.
        if (plain && i != FACTOR_WORLD && i != FACTOR_STAGE)
            vector.values[i] = 0;
    }
    if (!(options >> OPTION_TOKEN_MEAN & 1))
        vector.values[FACTOR_TOKENS] = 0;
    bool complete = factor_complete(&vector, random_key(key, STREAM_VECTOR));
    assert(complete);
    (void)complete;
    int count = factor_case(&vector, random_key(key, STREAM_CASE), HUNT_TOPIC, out);
    draw_again(random_key(key, STREAM_AGAIN), out, count);
    if (options >> OPTION_MUON & 1)
        draw_muon(random_key(key, STREAM_MUON), out, count);
    if (options >> OPTION_FP8_GATHER & 1)
        draw_e4m3(random_key(key, STREAM_E4M3), out, count);
    bool is_wide = draw_wide(random_key(key, STREAM_WIDE), out, count);
    if (count == 1)
        draw_largest(random_key(key, STREAM_LARGEST), &out[0]);
    bool is_long = !is_wide && draw_long(random_key(key, STREAM_LONG), out, count);
    if (number % 2 && !is_wide && !is_long && !out[0].gathers_e4m3)
        hunt_mesh_draw(random_key(key, STREAM_MESH), options, out, count);
    for (int i = 0; i < count; i++)
        complete_note(&out[i]);
    return count;
}
