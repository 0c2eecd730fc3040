// SPDX-License-Identifier: Apache-2.0
// Cases of suite version 3 about who owns what.
#include "conformance/suite/suite_build.h"

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
    suite_schedule(c, 2);
}

const struct suite_row suite_layout[] = {
    {"part-ragged", "The last shards of each group are empty on some ranks.", make_ragged, "3:0123:f",
     "2,4,5,8:0123:f 3:0123:b"},
    {0},
};
