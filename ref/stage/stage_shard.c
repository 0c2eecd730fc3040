// SPDX-License-Identifier: Apache-2.0
// Reads and writes a rank's shards, on whatever tier they live, and collects full buckets from all ranks.
#include "ref/stage/stage_shard.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static int collect(struct stage *stage, int bucket, const void *shard, void *full, enum dtype dtype)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    struct comm *comm = stage_exchange(stage, bucket)->comm;
    if (bucket_is_replicated(b)) {
        if (full != shard)
            TRY(bytes_copy(full, shard, b->count * dtype_bytes(dtype)));
        return ERR_NONE;
    }
    size_t counts[comm_world(comm)], offsets[comm_world(comm)];
    for (int rank = 0; rank < comm_world(comm); rank++) {
        counts[rank] = bucket_shard_real(b, rank);
        offsets[rank] = bucket_shard_begin(b, rank);
    }
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = comm_all_gather(comm, shard, full, counts, offsets, dtype);
    comm_count_in(comm, ledger);
    return rc;
}

int stage_shard(const struct stage *stage, int bucket)
{
    return bucket_is_replicated(&stage->layout.buckets[bucket]) ? 0 : comm_rank(stage_exchange(stage, bucket)->comm);
}

// Copies between memory and a state's location; through a buffer if that is on NVMe. Waits for the operations that
// access the state.
static int pass_bytes(struct stage *stage, struct location location, void *memory, size_t bytes, bool write)
{
    const struct executor_span span = {location.address, bytes, write ? EXECUTOR_WRITE : EXECUTOR_READ};
    TRY(executor_wait_for(stage->setting.executor, &span));
    if (memory == location.address)
        return ERR_NONE;
    if (location.tier != TIER_NVME)
        return bytes_copy(write ? location.address : memory, write ? memory : location.address, bytes);
    enum { BUFFER_BYTES = 4 << 20 };
    void *buffer;
    size_t buffer_bytes = move_bytes(TIER_NVME, TIER_HOST, bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES);
    if (posix_memalign(&buffer, TIER_NVME_ALIGNMENT, buffer_bytes) != 0)
        return err_set(ERR_MEMORY, "no memory to reach a state on NVMe");
    int code = ERR_NONE;
    for (size_t at = 0; code == ERR_NONE && at < bytes; at += BUFFER_BYTES) {
        size_t length = bytes - at < BUFFER_BYTES ? bytes - at : BUFFER_BYTES;
        size_t rounded = move_bytes(TIER_NVME, TIER_HOST, length);
        char *there = (char *)location.address + at, *here = (char *)memory + at;
        if (write) {
            memset(buffer, 0, rounded);
            memcpy(buffer, here, length);
            code = tier_nvme_write(stage->setting.nvme, there, buffer, rounded);
        } else {
            code = tier_nvme_read(stage->setting.nvme, there, buffer, rounded);
            memcpy(here, buffer, length);
        }
    }
    free(buffer);
    return code;
}

static struct location location_of(const struct placement *placement, enum state state)
{
    void *const addresses[] = {placement->master, placement->exp_avg, placement->exp_avg_sq};
    return (struct location){placement->optimizer_tier, addresses[state]};
}

static size_t shard_real(const struct stage *stage, int bucket)
{
    return bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
}

int stage_read_model_params(struct stage *stage, int bucket, void *out)
{
    const struct placement *placement = &stage->placements[bucket];
    size_t bytes = shard_real(stage, bucket) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct location){placement->parameter_tier, placement->parameter}, out, bytes, false);
}

int stage_write_model_params(struct stage *stage, int bucket, const void *in)
{
    const struct placement *placement = &stage->placements[bucket];
    size_t bytes = shard_real(stage, bucket) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct location){placement->parameter_tier, placement->parameter}, (void *)(uintptr_t)in,
                      bytes, true);
}

// The same for values that are in fp32 in memory, and in `dtype` where they live.
static int pass_values(struct stage *stage, struct location location, enum dtype dtype, float *values, size_t count,
                       bool write)
{
    size_t bytes = count * dtype_bytes(dtype);
    if (dtype == DTYPE_FP32)
        return pass_bytes(stage, location, values, bytes, write);
    void *narrow = malloc(bytes + 1);
    if (!narrow)
        return err_set(ERR_MEMORY, "no memory for a shard of %zu elements", count);
    if (write)
        dtype_narrow(dtype, values, narrow, count);
    int code = pass_bytes(stage, location, narrow, bytes, write);
    if (code == ERR_NONE && !write)
        dtype_widen(dtype, narrow, values, count);
    free(narrow);
    return code;
}

static enum dtype dtype_of(const struct config *config, enum state state)
{
    return state == STATE_PARAMETER ? config->master_dtype : config->moment_dtype;
}

static bool is_absent(const struct stage *stage, int bucket, enum state state)
{
    return state == STATE_EXP_AVG_SQ && stage->layout.buckets[bucket].whole;
}

int stage_read_shard(struct stage *stage, int bucket, enum state state, float *out)
{
    const struct placement *placement = &stage->placements[bucket];
    const struct config *config = stage->setting.config;
    size_t count = shard_real(stage, bucket);
    if (is_absent(stage, bucket, state))
        return memset(out, 0, count * sizeof *out), ERR_NONE;
    if (!stage->layout.buckets[bucket].frozen)
        return pass_values(stage, location_of(placement, state), dtype_of(config, state), out, count, false);
    const struct location location = {placement->parameter_tier, placement->parameter};
    return pass_values(stage, location, config->precision, out, count, false);
}

int stage_write_shard(struct stage *stage, int bucket, enum state state, const float *in)
{
    const struct placement *placement = &stage->placements[bucket];
    const struct config *config = stage->setting.config;
    size_t count = shard_real(stage, bucket);
    float *values = (float *)(uintptr_t)in;
    if (is_absent(stage, bucket, state))
        return ERR_NONE;
    if (!stage->layout.buckets[bucket].frozen)
        TRY(pass_values(stage, location_of(placement, state), dtype_of(config, state), values, count, true));
    if (state != STATE_PARAMETER || placement->master == placement->parameter)
        return ERR_NONE;
    const struct location location = {placement->parameter_tier, placement->parameter};
    TRY(pass_values(stage, location, config->precision, values, count, true));
    if (!placement->pending)
        return ERR_NONE;
    const struct location pending = {placement_pending_tier(placement), placement->pending};
    return pass_values(stage, pending, config->precision, values, count, true);
}

float *stage_shard_memory(struct stage *stage, int bucket, enum state state)
{
    const struct location location = location_of(&stage->placements[bucket], state);
    if (stage->layout.buckets[bucket].frozen || is_absent(stage, bucket, state) || location.tier == TIER_NVME ||
        dtype_of(stage->setting.config, state) != DTYPE_FP32 || accelerator_of(location.address))
        return NULL;
    return location.address;
}

// full = every rank's shard of a bucket, which `read` reads.
static int collect_with(struct stage *stage, int bucket, enum dtype dtype, void *full,
                        int (*read)(struct stage *stage, int bucket, enum state state, void *out), enum state state)
{
    void *shard = malloc(stage->layout.buckets[bucket].shard_elements * dtype_bytes(dtype) + 1);
    if (!shard)
        return err_set(ERR_MEMORY, "no memory to collect a shard");
    int code = read(stage, bucket, state, shard);
    if (code == ERR_NONE)
        code = collect(stage, bucket, shard, full, dtype);
    free(shard);
    return code;
}

static int read_state(struct stage *stage, int bucket, enum state state, void *out)
{
    return stage_read_shard(stage, bucket, state, out);
}

static int read_model_params(struct stage *stage, int bucket, enum state state, void *out)
{
    (void)state;
    return stage_read_model_params(stage, bucket, out);
}

static int read_gradient(struct stage *stage, int bucket, enum state state, void *out)
{
    (void)state;
    const struct placement *placement = &stage->placements[bucket];
    size_t bytes = shard_real(stage, bucket) * dtype_bytes(stage->setting.config->accumulation_dtype);
    return pass_bytes(stage, (struct location){placement->gradient_tier, placement->gradient_shard}, out, bytes, false);
}

int stage_collect_gradient(struct stage *stage, int bucket, void *full)
{
    return collect_with(stage, bucket, stage->setting.config->accumulation_dtype, full, read_gradient, STATE_PARAMETER);
}

int stage_regather(struct stage *stage)
{
    for (int i = 0; i < stage->layout.bucket_count; i++)
        if (stage->placements[i].full_params)
            TRY(collect_with(stage, i, stage->setting.config->precision, stage->placements[i].full_params,
                             read_model_params, STATE_PARAMETER));
    return ERR_NONE;
}

int stage_collect(struct stage *stage, int bucket, enum state state, float *full)
{
    return collect_with(stage, bucket, DTYPE_FP32, full, read_state, state);
}

int stage_collect_model_params(struct stage *stage, int bucket, void *full)
{
    const struct placement *placement = &stage->placements[bucket];
    enum dtype precision = stage->setting.config->precision;
    if (!placement->full_params)
        return collect_with(stage, bucket, precision, full, read_model_params, STATE_PARAMETER);
    return bytes_copy(full, placement->full_params, stage->layout.buckets[bucket].count * dtype_bytes(precision));
}
