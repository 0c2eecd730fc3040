// SPDX-License-Identifier: Apache-2.0
// Cases of LoRA: products whose matrices are frozen, and with each two small factors that are trained.
#include "conformance/suite/suite_build.h"

enum { RANK = 2, FROZEN_GROUP = 0, ADAPTER_GROUP = 1, SCALAR_GROUP = 2 };

static int frozen(struct check_case *c, size_t rows, size_t columns)
{
    int base = suite_tensor(c, rows, columns);
    c->params[base].frozen = true;
    return base;
}

static int adapter(struct check_case *c, int base, size_t rows, size_t columns)
{
    int index = suite_tensor(c, rows, columns);
    c->params[index].is_adapter = true;
    c->params[index].adapts = base;
    c->params[index].group = ADAPTER_GROUP;
    return index;
}

// Frozen matrices and norms are a group, whose every setting would show on them; A and B of each matrix are another.
static void make_lora(struct check_case *c, struct suite_item *item)
{
    static const size_t shapes[][2] = {{11, 13}, {7, 9}, {16, 5}};
    (void)item;
    c->group_count = 2;
    c->groups[FROZEN_GROUP].weight_decay = 0.5;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        frozen(c, shapes[i][0], 0);
        int base = frozen(c, shapes[i][0], shapes[i][1]);
        adapter(c, base, RANK, shapes[i][1]);
        adapter(c, base, shapes[i][0], RANK);
    }
}

// A third group has one element, so that it is empty on all ranks but one.
static void make_empty(struct check_case *c, struct suite_item *item)
{
    make_lora(c, item);
    c->group_count = 3;
    c->groups[SCALAR_GROUP].weight_decay = 0;
    c->params[adapter(c, 1, 1, 0)].group = SCALAR_GROUP;
}

// Each adapter rests in one step, or in one micro-step of it: a matrix then has one of its two without the other.
static void make_varying(struct check_case *c, struct suite_item *item)
{
    make_lora(c, item);
    c->accumulation = 2;
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].is_adapter)
            c->params[i].unused_in[1 + i % 3] = i % 2 ? 3 : 1;
}

const struct suite_row suite_lora[] = {
    {"lora-exact", "Frozen matrices with trained adapters.", make_lora, "", "2:0123:fb 4:13:f",
     "3,4,8:0123:f 4:0123:b"},
    {"lora-empty", "A group without trained parameters, and one that is empty on most ranks.", make_empty, "",
     "2:0123:f 4:0123:f", "3,8:0123:f 4:0123:b"},
    {"lora-micro", "Adapters and three micro-steps.", make_lora, "accumulation=3", "2:0123:f", "4:0123:b"},
    {"lora-clip", "A norm above the threshold, of adapters alone.", make_lora, "gradient_clipping=0.5", "2:0123:f",
     "4:0123:b"},
    {"lora-overflow", "inf in an adapter of the last rank.", make_lora, "dynamic=256,1000,1,1 poke=2,0,-1,2,3,inf",
     "2:13:h", "4:0123:h"},
    {"lora-ckpt", "Adapters and their base, stopped and continued.", make_lora, "steps=5 checkpoint_step=3",
     "2:0123:f 2:23:b", "4:0123:f"},
    {"lora-varying", "Adapters that some steps use and others do not.", make_varying, "", "2:0123:f", "4:0123:fb"},
    {0},
};

// A mistake about buckets shows in stage 3 alone, where adapters have several.
const struct suite_row suite_lora_buckets[] = {
    {"lora-clip", "A norm above the threshold, of adapters alone.", make_lora, "gradient_clipping=0.5", "", "3,8:3:f"},
    {"lora-overflow", "inf in an adapter of the last rank.", make_lora, "dynamic=256,1000,1,1 poke=2,0,-1,2,3,inf", "",
     "3,8:3:h"},
    {0},
};
