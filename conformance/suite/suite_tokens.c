// SPDX-License-Identifier: Apache-2.0
// Cases whose ranks and micro-steps count tokens. Unless the note says otherwise a step has a power of two of them, by
// which nothing rounds. A variant "a4" has four micro-steps.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/suite/suite_build.h"

#include <stdio.h>

// The counts of a step, slot by slot (micro-steps, and in each the micro-batches), as often as they go.
enum { SLOTS = 4 };

static void count_step(struct check_case *c, int step, const uint32_t counts[SLOTS])
{
    int batches = case_batches(c);
    for (int slot = 0; slot < c->accumulation * batches; slot++)
        case_set_tokens(c, step, slot / batches, slot % batches, counts[slot % SLOTS]);
}

// Every step has the same tokens, each time on other ranks.
static void count_all(struct check_case *c, const uint32_t counts[SLOTS])
{
    c->has_tokens = true;
    for (int step = 1; step <= c->steps; step++) {
        uint32_t turned[SLOTS];
        for (int i = 0; i < SLOTS; i++)
            turned[i] = counts[(i + step) % SLOTS];
        count_step(c, step, turned);
    }
}

static void count_each(struct check_case *c, const uint32_t counts[][SLOTS])
{
    c->has_tokens = true;
    for (int step = 1; step <= c->steps; step++)
        count_step(c, step, counts[step - 1]);
}

static const uint32_t powers[SLOTS] = {8, 8, 16, 32};

static void make(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    item->own_data = item->variant[0] != '\0';
    c->accumulation = suite_number(item, "a", 2);
}

// More micro-steps than ranks, so that factors of the ones are not taken for factors of the others.
static void make_exact(struct check_case *c, struct suite_item *item)
{
    make(c, item);
    c->accumulation = suite_number(item, "a", 4);
    count_all(c, powers);
}

static void make_parts(struct check_case *c, struct suite_item *item)
{
    static const uint32_t parts[SLOTS] = {7, 13, 1, 43};
    make(c, item);
    count_all(c, parts);
}

static void make_odd(struct check_case *c, struct suite_item *item)
{
    static const uint32_t parts[SLOTS] = {7, 13, 1, 40};
    make(c, item);
    count_all(c, parts);
    c->exact = false;
}

static void make_empty(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[][SLOTS] = {{24, 8, 0, 32}, {48, 0, 16, 0}, {0, 5, 0, 59}, {7, 0, 57, 0}};
    make(c, item);
    count_each(c, counts);
}

// A micro-step without tokens; the last step has one micro-step alone, as at the end of an epoch.
static void make_rest(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[][SLOTS] = {{24, 40, 0, 0}, {0, 0, 24, 40}, {13, 3, 1, 47}, {40, 24, 0, 0}};
    make(c, item);
    count_each(c, counts);
    c->micro_steps[c->steps - 1] = 1;
}

static void make_none(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[][SLOTS] = {{8, 8, 16, 32}, {0}, {32, 8, 8, 16}, {0}, {16, 32, 8, 8}};
    make(c, item);
    c->steps = 5;
    count_each(c, counts);
}

static void make_steps(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[][SLOTS] = {{8, 8, 16, 32}, {1, 1, 2, 4}, {16, 32, 64, 16}, {2, 8, 4, 2}};
    make(c, item);
    count_each(c, counts);
}

// 2^25 in all. In fp32 each single token that a rank counts behind its first 2^24 is lost.
static void make_large(struct check_case *c, struct suite_item *item)
{
    make(c, item);
    c->steps = 2;
    c->accumulation = CASE_ACCUMULATION_MAX;
    c->has_tokens = true;
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int rank = 0; rank < c->world; rank++)
                case_set_tokens(c, step, micro, rank, 1);
    for (int step = 1; step <= c->steps; step++) {
        case_set_tokens(c, step, 0, 0, 1 << 24);
        case_set_tokens(c, step, 0, 1, (1 << 24) - 2 * (CASE_ACCUMULATION_MAX - 1));
    }
}

// One number of tokens a slot on the average, and one mean, at every world and number of micro-steps.
static void make_cut(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[][SLOTS] = {{8, 24}, {8, 28, 12, 16}};
    make(c, item);
    c->has_tokens = c->data.same_mean = true;
    for (int step = 1; step <= c->steps; step++)
        count_step(c, step, counts[c->world * c->accumulation >= SLOTS]);
    snprintf(c->twin, sizeof c->twin, "tok-cut.%s", dtype_name(item->precision));
}

// Tensor ranks in pairs: a norm that is the same on both, and with a share of its gradient on each; products that are
// cut.
static void make_tensor(struct check_case *c, struct suite_item *item)
{
    c->mesh = (struct mesh){1, c->world / 2, 2, 1, 1};
    item->own_data = true;
    suite_tensors(c, "8x3,7,5x6,13,4x9");
    for (int i = 0; i < c->param_count; i += 2) {
        c->params[i].placement.part = PART_CUT;
        c->params[i].placement.dimension = i == 2;
    }
    c->params[3].placement.part = PART_PARTIAL;
    c->accumulation = 2;
    count_all(c, powers);
}

const struct suite_row suite_tokens[] = {
    {"tok-exact", "Ranks and micro-steps of powers of two tokens.", make_exact, "", "2:0123:f",
     "4:123:f 2:0123:b 2:123:h 4:13:b 2:1:f:a1,a2"},
    {"tok-parts", "Odd numbers of tokens, 64 in all.", make_parts, "", "2:0:f", "2:0123:f 4:13:f 2:0123:b"},
    {"tok-odd", "61 tokens in all, by which everything rounds.", make_odd, "", "2:0:f",
     "2:0123:f 3:123:f 4:13:f 2:13:b 2:1:f:a1,a3"},
    {"tok-empty", "A rank without tokens, in one micro-step or in all.", make_empty, "", "2:03:f",
     "2:0123:f 4:13:f 2:13:b"},
    {"tok-rest", "A micro-step without tokens, and a step of fewer micro-steps.", make_rest, "", "2:0:f",
     "2:0123:f 2:13:b"},
    {"tok-none", "Steps without tokens.", make_none, "", "2:0:f", "2:0123:f 4:1:f 2:13:b"},
    {"tok-steps", "Other numbers of tokens in every step.", make_steps, "", "2:0:f", "2:0123:f 4:13:f 2:13:bh"},
    {"tok-large", "33554432 tokens in all.", make_large, "", "2:0:f", "2:0123:f"},
    {"tok-clip", "A norm above the threshold, of the mean over tokens.", make_exact, "gradient_clipping=0.05", "2:02:f",
     "2:0123:f 4:13:f 2:13:b"},
    {"tok-cut", "The same tokens in more or fewer micro-steps and ranks.", make_cut, "", "2:0:f:a1,a4 4:0:f:a2",
     "2,4,8:0123:f:a1,a2,a4 2,4:13:b:a1,a2"},
    {"tok-tensor", "Tensor ranks, which have the same tokens.", make_tensor, "", "4:1:f",
     "2:01:f 4:123:f 8:123:f 4:1:b"},
    {0},
};
