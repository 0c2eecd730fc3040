// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 about who owns what, who sums what, and in which dtype: shards that are empty at the end of
// a group, ranks that share the sequences of a micro-batch, and sums over the axes of a mesh.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"
#include "conformance/suite/suite_build.h"

#include <stdio.h>

// Three groups in turn. The last tensor of each has a row of fewer elements than ranks, so that the last shard of a
// rank in the group is empty, whether rows are cut, elements, or all that the group has; the third is no larger.
static void make_ragged(struct check_case *c, struct suite_item *item)
{
    static const size_t shapes[][2] = {{4, 3}, {9, 5}, {7, 0}, {2, 8}, {1, 2}, {1, 2}, {1, 2}};
    static const int groups[] = {0, 1, 0, 1, 0, 1, 2};
    (void)item;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        c->params[suite_tensor(c, shapes[i][0], shapes[i][1])].group = groups[i];
    c->group_count = 3;
    c->groups[1].weight_decay = 0;
    c->groups[2].weight_decay = 0.2;
}

// --- sequence parallelism: variants "q2" and "q4", the ranks that share a micro-batch; "r2q2": in two replicas; of
// seq-mesh as in suite_mesh.c ---

static void set_sequence(struct check_case *c, struct suite_item *item)
{
    int replicas = 1;
    if (sscanf(item->variant, "r%dq%d", &replicas, &c->sequence) != 2)
        c->sequence = suite_number(item, "q", 1);
    if (c->sequence > 1)
        c->mesh = (struct mesh){replicas, c->world / replicas, 1, 1, 1};
    item->own_data = true;
}

static void make_sequence(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    set_sequence(c, item);
    c->accumulation = 3;
}

static void make_sequence_clip(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    set_sequence(c, item);
    c->gradient_clipping = 0.5;
}

// 64 tokens a step, of which the ranks of a micro-batch have unequal parts.
static void make_sequence_tokens(struct check_case *c, struct suite_item *item)
{
    static const uint32_t counts[] = {8, 8, 16, 32};
    suite_model(c);
    set_sequence(c, item);
    c->accumulation = 4 / case_batches(c);
    c->has_tokens = true;
    for (int step = 1; step <= c->steps; step++)
        for (int slot = 0; slot < 4; slot++)
            case_set_tokens(c, step, slot / case_batches(c), slot % case_batches(c), counts[(slot + step) % 4]);
}

// One mean, of as many micro-batches as there are.
static void make_sequence_twin(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    set_sequence(c, item);
    c->data.same_mean = true;
    c->data.spread = 50;
    snprintf(c->twin, sizeof c->twin, "seq-twin.%s", dtype_name(item->precision));
}

static void make_sequence_resume(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_set_mesh(c, item);
}

// --- dtypes of sums on a mesh ---

// As acc-trap, whichever axis the sum of the micro-steps is added over next. A norm is long enough
// to tell elements from tails.
static void make_mesh_trap(struct check_case *c, struct suite_item *item)
{
    suite_mesh_all(c, item);
    c->params[suite_tensor(c, 67, 0)].placement.part = PART_PARTIAL;
    suite_place_stages(c);
    suite_trap(c, 2);
}

// Two replicas of two shards, and one mean of one, two or four micro-steps in bf16, which does not hold their sums.
static void make_mesh_cut(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    c->mesh = (struct mesh){2, 2, 1, 1, 1};
    c->accumulation = suite_number(item, "a", 1);
    c->accumulation_dtype = c->communication_dtype = DTYPE_FP32;
    c->data.same_mean = true;
    c->data.spread = 120;
    snprintf(c->twin, sizeof c->twin, "mesh-cut.%s", dtype_name(item->precision));
}

const struct suite_row suite_layout[] = {
    {"part-ragged", "The last shards of each group are empty on some ranks.", make_ragged, "", "3:0123:f",
     "2,4,5,8:0123:f 3:0123:b"},
    {"seq-exact", "Ranks that divide the sequences of a micro-batch, and micro-steps.", make_sequence, "",
     "2:012:f:q2 4:13:f:q2", "4:0123:f:q2,q4,r2q2 4:123:b:q2 4:13:h:q2 8:123:f:q2,q4"},
    {"seq-clip", "A norm above the threshold, of shares of sequences.", make_sequence_clip, "", "4:13:f:q2",
     "4:02:f:q2,q4,r2q2"},
    {"seq-tokens", "Tokens of sequences that ranks divide among them.", make_sequence_tokens, "", "4:1:f:q2",
     "4:023:f:q2,q4 2:0123:f:q2"},
    {"seq-twin", "One mean, of four micro-batches on four ranks, of two, and of one.", make_sequence_twin, "",
     "4:1:f:none,q2,q4", "4:023:f:none,q2,q4,r2q2 2:1:f:q2 8:3:f:q2,q4"},
    {"seq-ckpt", "Sequences that ranks divide among them, stopped and continued with other parts.",
     make_sequence_resume, "", "4:13:f:s4q2-s4q4,s4-s4q2",
     "4:2:f:s4q2-r2s2q2,s4q4-s4,r2s2q2-r2s2q2 4:1:b:s4q2-s4 4:3:b:s4q4-s4q2"},
    {"seq-mesh", "Sequences that ranks divide among them, where tensor ranks, stages or experts cut the model.",
     suite_mesh_all, "accumulation=3", "4:1:f:s4q2,s2t2q2,s2p2q2,s4e2q2",
     "4:2:f:s2t2q2,s4e2q2 4:1:b:s2t2q2 8:123:f:s4t2q2,s4t2e2q2,s8e2q4 8:1:f:s2t2p2q2,r2s2t2q2 4:0:f:s2t2q2"},
    {"mesh-trap", "A micro-step is 256 times larger than the next, on meshes.", make_mesh_trap, "",
     "4:2:b:r2s2 4:1:b:s2t2 4:3:b:r4s1", "4:13:b:r2s2 4:1:b:r1s4,r4s1,s4e2,s2p2,t2p2,t4 4:23:b:s2t2,s4e2"},
    {"mesh-cut", "One mean of more or fewer micro-steps, in two replicas.", make_mesh_cut, "", "4:2:b:a1,a4",
     "4:013:b:a1,a2,a4 4:2:b:a2"},
    {0},
};
