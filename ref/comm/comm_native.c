// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_native.h"

#include "base/err.h"
#include "ref/comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

int comm_native_begin(struct comm *comm)
{
    if (!comm->ops->has_native)
        return err_set(ERR_USAGE, "native reductions: ranks that are threads have only canonical sums");
    comm->uses_native = true;
    return ERR_NONE;
}

void comm_native_compare(struct comm *comm, enum dtype dtype, const void *canonical, const void *native, size_t offset,
                         size_t count)
{
    struct comm_native *found = &comm->native;
    size_t bytes = dtype_bytes(dtype);
    found->sums++;
    found->elements += count;
    for (size_t i = 0; i < count; i++) {
        const char *expected = (const char *)canonical + i * bytes, *actual = (const char *)native + i * bytes;
        if (memcmp(expected, actual, bytes) == 0)
            continue;
        found->different++;
        if (found->first_sum != 0)
            continue;
        found->first_sum = found->sums;
        found->first_rank = (uint64_t)comm->rank;
        found->first_element = offset + i;
        memcpy(&found->canonical_bits, expected, bytes);
        memcpy(&found->native_bits, actual, bytes);
    }
}

int comm_native_found(struct comm *comm, struct comm_native *out)
{
    size_t world = (size_t)comm->world;
    struct comm_native *all = calloc(world, sizeof *all);
    struct ledger *ledger = comm->ledger;
    int rc = all ? ERR_NONE : err_set(ERR_MEMORY, "out of memory for the comparisons of %zu ranks", world);
    comm->ledger = NULL;
    if (rc == ERR_NONE)
        rc = comm_all_gather_equal(comm, &comm->native, all, sizeof *all);
    comm->ledger = ledger;
    *out = rc == ERR_NONE ? all[0] : (struct comm_native){0};
    for (size_t rank = 1; rank < world && rc == ERR_NONE; rank++) {
        bool earlier = all[rank].first_sum != 0 && (out->first_sum == 0 || all[rank].first_sum < out->first_sum);
        struct comm_native sum = earlier ? all[rank] : *out;
        sum.elements = out->elements + all[rank].elements;
        sum.different = out->different + all[rank].different;
        *out = sum;
    }
    free(all);
    return rc;
}
