// SPDX-License-Identifier: Apache-2.0
// Bytes of ZeRO++'s quantized communication.
#include "ref/formula/formula_internal.h"

#include "ref/recipe/quantize.h"

static uint64_t packed_bytes(const struct terms *t, uint64_t count, int bits)
{
    return quantize_bytes(count, t->config->quantization_block, bits);
}

// In E4M3 a byte an element; the largest magnitude of the shard goes to every rank as well.
uint64_t formula_gathered_bytes(const struct terms *t, uint64_t count)
{
    return t->config->e4m3_weights ? count + sizeof(float) : packed_bytes(t, count, QUANTIZE_WEIGHT_BITS);
}

static uint64_t packed_gradients(const struct terms *t, uint64_t count)
{
    return packed_bytes(t, count, QUANTIZE_GRADIENT_BITS);
}

// For L ranks in each of N/L nodes: within the node Psi/2 (L-1)/L bytes, the shards of other places in their nodes; and
// across nodes Psi/2 (1/L - 1/N), those of this place (ZeRO++, section 3.3). Shards are whole blocks, so that several
// have as many bytes as one array.
void formula_send_hops(const struct terms *t, const struct bucket *bucket, struct formula *f)
{
    int locals = t->config->node_ranks, ranks = (int)t->ranks;
    uint64_t own = (uint64_t)bucket_shard_real(bucket, t->rank), of_place = 0;
    for (int rank = t->rank % locals; rank < ranks; rank += locals)
        of_place += bucket_shard_real(bucket, rank);
    uint64_t place_bytes = packed_gradients(t, of_place);
    formula_send(&f->step, GROUP_NODE, OPERATION_ALL_TO_ALL,
                 t->micro_steps * (packed_gradients(t, bucket->count) - place_bytes));
    formula_send(&f->step, GROUP_NODES, OPERATION_ALL_TO_ALL,
                 t->micro_steps * (place_bytes - packed_gradients(t, own)));
}
