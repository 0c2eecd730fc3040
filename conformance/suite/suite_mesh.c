// SPDX-License-Identifier: Apache-2.0
// Cases on meshes. A variant is a mesh, as the letters and degrees of replicate, shard, tensor, pipeline, expert and q
// for sequence: "r2s2", "s2t2"; with "-" and another one behind it the case saves a checkpoint and resumes on the other
// mesh.
#include "conformance/suite/suite_build.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads a mesh and steps behind it.
static struct mesh read_mesh(const char **text, int *sequence)
{
    static const char letters[] = "rstpeq";
    struct mesh mesh = {1, 1, 1, 1, 1};
    int *const degrees[] = {&mesh.replicate, &mesh.shard, &mesh.tensor, &mesh.pipeline, &mesh.expert, sequence};
    while (**text && **text != '-') {
        const char *letter = strchr(letters, **text);
        char *end;
        assert(letter && isdigit((unsigned char)(*text)[1]));
        *degrees[letter - letters] = (int)strtol(*text + 1, &end, 10);
        *text = end;
    }
    return mesh;
}

void suite_set_mesh(struct check_case *c, struct suite_item *item)
{
    const char *text = item->variant;
    item->own_data = true;  // other data ranks than those of another mesh
    c->mesh = read_mesh(&text, &c->sequence);
    assert(mesh_check_world(&c->mesh, c->world) == 0);
    if (*text != '-')
        return;
    text++;
    item->resume_mesh = read_mesh(&text, &item->resume_sequence);
    assert(mesh_check_world(&item->resume_mesh, c->world) == 0);
    c->steps = 5;
    c->checkpoint_step = 3;
    c->data.same_mean = true;
    c->data.spread = 6;
}

void suite_cut(struct check_case *c, int param, int dimension)
{
    c->params[param].placement.part = PART_CUT;
    c->params[param].placement.dimension = dimension;
}

// Parameters of a transformer's block as tensor parallelism cuts them: the embedding by its vocabulary, one product by
// columns and the next by rows, a bias with its columns; norms and the bias of rows are whole. With sequence
// parallelism, whose norms see a part of the sequence each, these have partial gradients.
static void make_blocks(struct check_case *c, bool sequence)
{
    suite_cut(c, suite_tensor(c, 8, 3), 0);
    for (int block = 0; block < 2; block++) {
        int norm = suite_tensor(c, 7, 0);
        suite_cut(c, suite_tensor(c, 3, 8), 1);
        suite_cut(c, suite_tensor(c, 12, 0), 0);
        suite_cut(c, suite_tensor(c, 8, 5), 0);
        int bias = suite_tensor(c, 5, 0);
        if (sequence)
            c->params[norm].placement.part = c->params[bias].placement.part = PART_PARTIAL;
    }
}

// Four experts of two tensors each; the first is cut over tensor ranks, too.
static void make_experts(struct check_case *c)
{
    for (int expert = 0; expert < 4; expert++)
        for (int half = 0; half < 2; half++) {
            int param = half == 0 ? suite_tensor(c, 4, 3) : suite_tensor(c, 5, 0);
            if (half == 0)
                suite_cut(c, param, 0);
            c->params[param].placement.is_expert = true;
            c->params[param].placement.expert = expert;
        }
}

// --- replicate x shard ---

static void make_hsdp(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_set_mesh(c, item);
}

// --- tensor ---

static void make_tensor(struct check_case *c, struct suite_item *item)
{
    make_blocks(c, false);
    suite_set_mesh(c, item);
}

static void make_sequence(struct check_case *c, struct suite_item *item)
{
    make_blocks(c, true);
    suite_set_mesh(c, item);
}

// --- experts ---

static void make_expert(struct check_case *c, struct suite_item *item)
{
    suite_tensor(c, 7, 5);
    make_experts(c);
    suite_tensor(c, 13, 0);
    suite_set_mesh(c, item);
}

// --- pipeline ---

static void make_pipeline(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_set_mesh(c, item);
    suite_place_stages(c);
}

// The embedding of the first stage is the last stage's head.
static void make_tied(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_tie(c, 0);
    suite_set_mesh(c, item);
    suite_place_stages(c);
}

// --- all of them ---

void suite_mesh_all(struct check_case *c, struct suite_item *item)
{
    make_blocks(c, true);
    make_experts(c);
    suite_tie(c, 0);
    suite_set_mesh(c, item);
    suite_place_stages(c);
}

// One logical case on every mesh: the mean is the same at every number of data ranks. Multiples of 3 divide by 3, too.
static void make_twin(struct check_case *c, struct suite_item *item)
{
    suite_mesh_all(c, item);
    c->steps = 3;
    c->data.same_mean = true;
    c->data.unit = 3;
    c->data.spread = item->precision == DTYPE_FP32 ? 50 : 1;
    c->data.reach = item->precision == DTYPE_FP32 ? 100 : 1;
    snprintf(c->twin, sizeof c->twin, "mesh-twin.%s", dtype_name(item->precision));
}

// Each parameter rests in one step, or in one micro-step of it.
static void make_varying(struct check_case *c, struct suite_item *item)
{
    suite_mesh_all(c, item);
    c->accumulation = 2;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].unused_in[1 + i % 3] = i % 2 ? 3 : i % 4 ? 2 : 1;
}

const struct suite_row suite_mesh[] = {
    {"hsdp-exact", "Replicas of shard groups; no sum rounds.", make_hsdp, "", "4:0123:f:r2s2 4:23:b:r2s2 8:3:f:r2s4",
     "8:0123:fb:r2s4,r4s2 6:123:f:r3s2,r2s3"},
    {"hsdp-micro", "Three micro-steps on replicas of shard groups.", make_hsdp, "accumulation=3 zero_steps=3",
     "4:0123:f:r2s2 4:23:b:r2s2 4:123:f:r4s1,r1s4", "8:123:f:r2s4,r4s2 6:123:f:r3s2 4:123:b:r4s1,r1s4"},
    {"hsdp-clip", "A norm above the threshold, on replicas of shard groups.", make_hsdp, "gradient_clipping=0.5",
     "4:0123:f:r2s2", "8:123:f:r4s2 4:123:b:r2s2"},
    {"hsdp-overflow", "inf on one rank of the last replica, in the first of two micro-steps.", make_hsdp,
     "accumulation=2 dynamic=256,1000,1,1 poke=2,0,-1,4,32,inf", "4:123:h:r2s2", "8:123:h:r2s4,r4s2"},
    {"hsdp-ckpt", "Stopped on one mesh of replicas and continued on another.", make_hsdp, "",
     "4:123:f:r2s2-r1s4,r1s4-r2s2,r2s2-r2s2", "4:123:b:r2s2-r4s1,r4s1-r2s2"},
    {"tp-exact", "Parameters that are cut over tensor ranks, or the same on all of them.", make_tensor, "",
     "2:0123:f:t2 4:123:f:s2t2 4:1:b:s2t2", "4:123:f:t4 8:123:f:s4t2,s2t4,r2s2t2"},
    {"tp-sequence", "Norms with a share of their gradient on each tensor rank.", make_sequence, "accumulation=2",
     "2:01:f:t2 4:123:f:s2t2 4:1:f:t4", "8:123:f:s4t2,r2s2t2 4:123:b:s2t2"},
    {"tp-clip", "A norm above the threshold, on tensor ranks.", make_sequence, "gradient_clipping=0.5",
     "2:01:f:t2 4:123:f:s2t2", "4:1:f:t4 8:123:f:s2t4"},
    {"tp-norm", "A norm above the threshold, on tensor ranks without sequence parallelism.", make_tensor,
     "gradient_clipping=0.5", "2:01:f:t2 4:123:f:s2t2", "4:1:f:t4 8:123:f:s2t4"},
    // In the part of the last tensor rank alone.
    {"tp-overflow", "inf in the part of one tensor rank.", make_tensor,
     "accumulation=2 dynamic=256,1000,1,1 poke=2,0,0,3,11,inf", "2:1:h:t2 4:123:h:s2t2", "4:1:h:t4"},
    {"tp-ckpt", "Stopped and continued with another number of tensor ranks.", make_tensor, "",
     "4:123:f:s2t2-t4,t4-s2t2,s2t2-s4", "4:123:b:s2t2-r2s2,t4-s4"},
    {"ep-exact", "Four experts, some on each rank of an expert group.", make_expert, "",
     "2:012:f:s2e2 4:123:f:s4e2,s4e4 4:1:b:s4e2", "8:123:f:s8e4,r2s4e2,s4t2e2 4:2:b:s4e4"},
    {"ep-micro", "Three micro-steps with experts.", make_expert, "accumulation=3", "4:123:f:s4e2", "8:123:f:s8e2"},
    {"ep-clip", "A norm above the threshold, with experts.", make_expert, "gradient_clipping=0.5",
     "2:1:f:s2e2 4:123:f:s4e2", "4:123:f:s4e4 8:1:f:s4t2e2"},
    // In the last expert.
    {"ep-overflow", "inf in one expert.", make_expert, "accumulation=2 dynamic=256,1000,1,1 poke=2,0,0,8,4,inf",
     "2:1:h:s2e2 4:123:h:s4e2", "4:1:h:s4e4"},
    {"ep-ckpt", "Stopped and continued with other groups of experts.", make_expert, "", "4:123:f:s4e2-s4e4,s4e4-s4",
     "4:123:b:s4e2-r2s2e2,r2s2e2-s4"},
    {"pp-exact", "Three micro-steps through the stages of a pipeline.", make_pipeline, "accumulation=3",
     "2:01:f:p2 4:01:f:s2p2 4:1:b:s2p2", "4:01:f:p4 8:01:f:s4p2,r2s2p2 3:01:f:p3"},
    {"pp-tied", "An embedding of the first stage that is the last one's head.", make_tied, "accumulation=2",
     "2:01:f:p2 4:01:f:s2p2", "4:01:f:p4 8:1:f:s2t2p2"},
    {"pp-clip", "A norm above the threshold, of all stages together.", make_tied, "gradient_clipping=0.5",
     "2:01:f:p2 4:01:f:s2p2", "4:01:f:p4"},
    {"pp-overflow", "inf in the last stage.", make_pipeline, "accumulation=2 dynamic=256,1000,1,1 poke=2,0,0,5,65,inf",
     "2:1:h:p2 4:01:h:s2p2", "4:1:h:p4"},
    {"pp-ckpt", "Stopped and continued with another number of stages.", make_tied, "accumulation=2",
     "4:1:f:s2p2-p4,s2p2-s4", "4:01:b:p4-s2p2,p4-s2t2"},
    {"mesh-twin", "One model on every mesh, with one mean.", make_twin, "",
     "1:0:f:s1 2:0:f:s2,r2,t2,p2,s2e2 4:1:f:s4,r2s2,r4,s2t2,s2p2,t2p2,s4e2,r2s2e2,t4,p4 4:3:f:s4,r2s2,s2t2,s4e4 "
     "4:1:b:r2s2,s2t2,s2p2,s4e2",
     "4:2:f:s4,r2s2,s2t2,s4e2 8:123:f:s8,r2s4,r4s2,r2s2t2,s4t2,s2t4,s4t2e2,s8e4,r2s4e2 8:1:f:s2t2p2,s4p2,r2s2p2 "
     "6:123:f:r3s2,s3t2,s6 3:1:f:s3"},
    {"mesh-varying", "Parameters that some steps use and others do not, on meshes.", make_varying, "",
     "4:123:f:r2s2,s2t2 4:12:f:s4e2 4:1:f:s2p2", "8:123:f:r2s2t2,s4t2e2 8:1:f:s2t2p2 4:123:b:r2s2,s2t2 4:1:b:s2p2"},
    {0},
};
