// SPDX-License-Identifier: Apache-2.0
// Agreement and sums over ranks that are processes.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"

#include <stdlib.h>

int comm_ranks_agree(const struct comm_ranks *ranks, uint64_t *value)
{
    return ranks->setting.comm ? comm_broadcast(ranks->setting.comm, value, sizeof *value, 0) : ERR_NONE;
}

int comm_ranks_sum(const struct comm_ranks *ranks, uint64_t own, uint64_t *sum)
{
    struct comm *comm = ranks->setting.comm;
    *sum = own;
    if (!comm)
        return ERR_NONE;
    size_t world = (size_t)comm_world(comm);
    uint64_t *all = calloc(world, sizeof *all);
    int code = all ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the counts of %zu ranks", world);
    if (code == ERR_NONE)
        code = comm_all_gather_equal(comm, &own, all, sizeof own);
    *sum = 0;
    for (size_t rank = 0; rank < world && code == ERR_NONE; rank++)
        *sum += all[rank];
    free(all);
    return code;
}
