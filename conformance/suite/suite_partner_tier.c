// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 in which checkpoints and offload meet what is trained with them; and checkpoints of one
// feature alone.
#include "conformance/suite/suite_build.h"

#include <string.h>

// Variants as of suite_mixed, behind the tier.
static void make_offload_mixed(struct check_case *c, struct suite_item *item)
{
    suite_offload(c, item);
    suite_differ(c, strchr(item->variant, '-') + 1);
    item->own_data = true;
}

const struct suite_row suite_partner_tier[] = {
    {"ckpt-accumulated", "Stopped and continued, with micro-steps.", NULL, "steps=5 checkpoint_step=3 accumulation=3",
     "2:02:f", "1,3:0123:fb"},
    {"ckpt-clip", "Stopped and continued, with norms above the threshold.", NULL,
     "steps=5 checkpoint_step=3 gradient_clipping=0.0713", "2:13:f", "1,3:0123:fb"},
    {"ckpt-groups", "Stopped and continued, with groups of which one differs.", suite_mixed,
     "steps=5 checkpoint_step=3", "2:1:f:mode 2:2:f:correction 2:3:b:decay,schedule",
     "2:02:f:mode,correction,schedule,decay 3:0123:f:all"},
    {"ckpt-frozen", "Stopped and continued, with frozen parameters.", NULL, "steps=5 checkpoint_step=3 frozen=2,5",
     "2:1:b 2:3:f", "3:0123:fb"},
    {"ckpt-uses", "Stopped and continued, with parameters of two uses.", NULL, "steps=5 checkpoint_step=3 tied=0,4",
     "2:1:b 2:3:f", "3:0123:fb"},
    {"ckpt-offload", "Stopped and continued, with an offloaded optimizer.", suite_placed, "steps=5 checkpoint_step=3",
     "2:2:f:cpu 2:3:b:nvme", "3:123:fb:cpu 3:3:f:nvme"},
    {"off-groups", "An offloaded group without decay.", suite_offload, "steps=5 split_decay", "2:123:f:cpu 2:3:b:nvme",
     "1,3:123:fb:cpu 3:3:f:nvme"},
    {"off-mixed", "Offloaded groups of which one differs.", make_offload_mixed, "steps=5",
     "2:2:f:cpu-mode,cpu-correction 2:3:f:nvme-all", "1,3:123:fb:cpu-all 3:3:f:nvme-mode,nvme-correction"},
    {"off-schedule", "An offloaded optimizer with micro-steps and another learning rate in every step.", suite_offload,
     "steps=5 accumulation=2 lr=0.01,0.04,0.005,0.02,0.001,0.03", "2:123:f:cpu", "1,3:123:fb:cpu 3:3:f:nvme"},
    {"delay-groups", "Late updates of a group without decay.", suite_offload, "steps=6 delayed_update=3 split_decay",
     "2:2:f:cpu 2:3:b:cpu", "1,3:123:f:cpu"},
    {"delay-mixed", "Late updates of groups of which one differs.", suite_offload,
     "steps=6 delayed_update=3 differ=all", "2:2:f:cpu", "2:13:f:cpu 3:123:f:cpu"},
    {"delay-accumulated", "Late updates, and micro-steps.", suite_offload, "steps=6 delayed_update=3 accumulation=2",
     "2:1:f:cpu 2:3:b:cpu", "1,3:123:f:cpu"},
    {0},
};
