// SPDX-License-Identifier: Apache-2.0
// Groups within the shard group.
#include "ref/groups/groups_internal.h"

#include "base/err.h"

int groups_split(struct groups *g, enum ledger_group group, int ranks, int from, int step, struct comm **out)
{
    int members[ranks];
    for (int i = 0; i < ranks; i++)
        members[i] = from + i * step;
    TRY(comm_split(g->shard_comm, members, ranks, out));
    comm_count_in(*out, g->setting.move->ledger);
    comm_count_for(*out, group);
    return ERR_NONE;
}
