// SPDX-License-Identifier: Apache-2.0
// hpZ (ZeRO++, section 3.2): states are partitioned over the whole shard group, and consecutive ranks of it hold a
// second copy of the parameters together. Forward stores in it what it gathered, and backward gathers from it, in the
// smaller group.
#include "ref/groups/groups_internal.h"
#include "ref/partition/collectives.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

struct bucket bucket_secondary(const struct bucket *bucket, int ranks)
{
    struct bucket secondary = *bucket;
    assert(bucket->owner < 0 && bucket->padded_count % (size_t)ranks == 0);
    secondary.shard_elements = bucket->padded_count / (size_t)ranks;
    return secondary;
}

// Fills this rank's part of the second copy from the gathered bucket.
static int keep(const struct exchange *e, int bucket, const void *full, enum dtype dtype)
{
    const struct groups *g = e->groups;
    const struct bucket *secondary = &g->secondary_buckets[bucket];
    int rank = comm_rank(g->secondary_comm);
    const char *own = (const char *)full + bucket_shard_begin(secondary, rank) * dtype_bytes(dtype);
    return move_cast(e->move, TIER_DEVICE, own, dtype, g->secondary_params[bucket], dtype,
                     bucket_shard_real(secondary, rank), false);
}

static int gather_kept(const struct exchange *e, int bucket, void *full, enum dtype dtype)
{
    const struct groups *g = e->groups;
    struct exchange secondary = *e;
    secondary.comm = g->secondary_comm;
    return exchange_all_gather(&secondary, &g->secondary_buckets[bucket], g->secondary_params[bucket], full, dtype);
}

int hpz_open(struct groups *g)
{
    int rank = comm_rank(g->shard_comm), ranks = g->setting.config->secondary_ranks;
    if (ranks <= 1)
        return ERR_NONE;
    g->verbs.keep = keep;
    g->verbs.gather_kept = gather_kept;
    return groups_split(g, GROUP_SECONDARY, ranks, rank / ranks * ranks, 1, &g->secondary_comm);
}

int hpz_cut(struct groups *g)
{
    int buckets = g->setting.layout->bucket_count;
    g->secondary_buckets = calloc((size_t)buckets + 1, sizeof *g->secondary_buckets);
    g->secondary_params = calloc((size_t)buckets + 1, sizeof *g->secondary_params);
    if (!g->secondary_buckets || !g->secondary_params)
        return err_set(ERR_MEMORY, "no memory for the second copies of %d buckets", buckets);
    for (int i = 0; i < buckets; i++)
        g->secondary_buckets[i] = bucket_secondary(&g->setting.layout->buckets[i], comm_world(g->secondary_comm));
    return ERR_NONE;
}

// On the device, so that backward waits for no other tier.
int groups_allocate_copies(struct groups *g)
{
    size_t element_bytes = dtype_bytes(g->setting.config->precision), count = 0, real = 0;
    if (!g->secondary_comm)
        return ERR_NONE;
    for (int i = 0; i < g->setting.layout->bucket_count; i++) {
        const struct bucket *secondary = &g->secondary_buckets[i];
        count += secondary->persistent ? 0 : secondary->shard_elements;
        real += secondary->persistent ? 0 : bucket_shard_real(secondary, comm_rank(g->secondary_comm));
    }
    char *memory;
    TRY(tier_allocate(g->setting.tier, TIER_DEVICE, KIND_PARAMETER, "secondary parameters", count * element_bytes,
                      (count - real) * element_bytes, (void **)&memory));
    for (int i = 0; i < g->setting.layout->bucket_count; i++) {
        const struct bucket *secondary = &g->secondary_buckets[i];
        g->secondary_params[i] = memory;
        memory += (secondary->persistent ? 0 : secondary->shard_elements) * element_bytes;
    }
    return ERR_NONE;
}
