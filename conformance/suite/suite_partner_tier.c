// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 in which checkpoints and offload meet what is trained with them; and checkpoints of one
// feature alone.
#include "conformance/suite/suite_build.h"

#include <string.h>

// --- checkpoints ---

static void make_saved(struct check_case *c)
{
    suite_model(c);
    c->steps = 5;
    c->checkpoint_step = 3;
}

static void make_saved_frozen(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_saved(c);
    c->params[2].frozen = c->params[5].frozen = true;
}

static void make_saved_tied(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_saved(c);
    suite_tie(c, 0);
    suite_tie(c, 4);
}

static void make_saved_accumulation(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_saved(c);
    c->accumulation = 3;
}

static void make_saved_clip(struct check_case *c, struct suite_item *item)
{
    (void)item;
    make_saved(c);
    c->gradient_clipping = 0.0713;
}

// Variants as of make_mixed.
static void make_saved_groups(struct check_case *c, struct suite_item *item)
{
    make_saved(c);
    suite_differ(c, item->variant);
    item->own_data = true;
}

static void place(struct check_case *c, const struct suite_item *item)
{
    c->offload_optimizer = strncmp(item->variant, "nvme", 4) == 0 ? TIER_NVME : TIER_HOST;
}

static void make_saved_offload(struct check_case *c, struct suite_item *item)
{
    make_saved(c);
    place(c, item);
}

// --- offload ---

static void make_offload(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_tensor(c, 19, 5);
    c->steps = 5;
    place(c, item);
}

static void make_offload_groups(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    suite_split_decay(c);
}

// Variants as of make_mixed, behind the tier.
static void make_offload_mixed(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    suite_differ(c, strchr(item->variant, '-') + 1);
    item->own_data = true;
}

static void make_offload_schedule(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->accumulation = 2;
    suite_schedule(c, 0);
}

static void make_delayed(struct check_case *c, struct suite_item *item)
{
    make_offload(c, item);
    c->steps = 6;
    c->delayed_update = 3;
}

static void make_delayed_groups(struct check_case *c, struct suite_item *item)
{
    make_delayed(c, item);
    suite_split_decay(c);
}

static void make_delayed_mixed(struct check_case *c, struct suite_item *item)
{
    make_delayed(c, item);
    suite_differ(c, "all");
}

static void make_delayed_accumulation(struct check_case *c, struct suite_item *item)
{
    make_delayed(c, item);
    c->accumulation = 2;
}

const struct suite_row suite_partner_tier[] = {
    {"ckpt-accumulated", "Stopped and continued, with micro-steps.", make_saved_accumulation, "2:02:f", "1,3:0123:fb"},
    {"ckpt-clip", "Stopped and continued, with norms above the threshold.", make_saved_clip, "2:13:f", "1,3:0123:fb"},
    {"ckpt-groups", "Stopped and continued, with groups of which one differs.", make_saved_groups,
     "2:1:f:mode 2:2:f:correction 2:3:b:decay,schedule", "2:02:f:mode,correction,schedule,decay 3:0123:f:all"},
    {"ckpt-frozen", "Stopped and continued, with frozen parameters.", make_saved_frozen, "2:1:b 2:3:f", "3:0123:fb"},
    {"ckpt-uses", "Stopped and continued, with parameters of two uses.", make_saved_tied, "2:1:b 2:3:f", "3:0123:fb"},
    {"ckpt-offload", "Stopped and continued, with an offloaded optimizer.", make_saved_offload, "2:2:f:cpu 2:3:b:nvme",
     "3:123:fb:cpu 3:3:f:nvme"},
    {"off-groups", "An offloaded group without decay.", make_offload_groups, "2:123:f:cpu 2:3:b:nvme",
     "1,3:123:fb:cpu 3:3:f:nvme"},
    {"off-mixed", "Offloaded groups of which one differs.", make_offload_mixed,
     "2:2:f:cpu-mode,cpu-correction 2:3:f:nvme-all", "1,3:123:fb:cpu-all 3:3:f:nvme-mode,nvme-correction"},
    {"off-schedule", "An offloaded optimizer with micro-steps and another learning rate in every step.",
     make_offload_schedule, "2:123:f:cpu", "1,3:123:fb:cpu 3:3:f:nvme"},
    {"delay-groups", "Late updates of a group without decay.", make_delayed_groups, "2:2:f:cpu 2:3:b:cpu",
     "1,3:123:f:cpu"},
    {"delay-mixed", "Late updates of groups of which one differs.", make_delayed_mixed, "2:2:f:cpu",
     "2:13:f:cpu 3:123:f:cpu"},
    {"delay-accumulated", "Late updates, and micro-steps.", make_delayed_accumulation, "2:1:f:cpu 2:3:b:cpu",
     "1,3:123:f:cpu"},
    {0},
};
